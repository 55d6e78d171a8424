"""One file an op family, one `Op` row an op. Files here are found and loaded by `hlo.op`."""
