"""Chains whose first half is the second, transposed, as in x^T L^-T L^-1 x."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count

from tf_memsafe.rewrite.chain_links import Inverse, Link, through_view


def mirrored_axes(links: Sequence[Link], summed: Collection[int]) -> dict[int, int] | None:
    """For each axis of the second half of the links, the one that it is in the first half.

    None unless the first half is the second, transposed.

    summed: the axes that are summed over.
    """
    half, odd = divmod(len(links), 2)
    if odd or half < 2:
        return None
    axes: dict[int, int] = {}
    fresh = count(-1, -1)
    for link, other in zip(links[:half], reversed(links[half:]), strict=True):
        first, second = (_without_views(each, fresh) for each in (link, other))
        if replace(first, axes=()) != replace(second, axes=()):
            return None
        for axis, twin in zip(second.axes, first.axes, strict=True):
            if axes.setdefault(axis, twin) != twin:
                return None
    twins = set(axes.values())
    apart = any(axis in twins and axis != twin for axis, twin in axes.items())
    unlike = any((axis in summed) != (twin in summed) for axis, twin in axes.items())
    return None if apart or unlike else axes


def _without_views(link: Link, fresh: Iterator[int]) -> Link:
    """What a link shows; axes of one element that the link has not get fresh numbers."""
    inside: Link | None = None if isinstance(link, Inverse) else link
    while inside is not None:
        link, inside = inside, through_view(inside, fresh)
    return link
