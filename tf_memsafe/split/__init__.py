"""Cuts what is too large into loops over chunks: axis rules, demand, plan, loops, liveness."""
