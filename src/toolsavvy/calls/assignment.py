"""Which of several predicted things stands for which of several right ones: the pairing of greatest gain."""

from __future__ import annotations

from collections.abc import Sequence

LARGEST = 24
"""Rows or columns that are assigned optimally; beyond, greedily."""


def assign(gains: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Pairs (row, column) of the greatest total gain; min(rows, columns) of them, deterministic.

    Optimal (Hungarian algorithm, Kuhn 1955, in the O(n^3) form of Jonker and Volgenant's successive shortest paths) up
    to `LARGEST` rows or columns, else the greatest gain first, ties in order.
    """
    rows, columns = len(gains), len(gains[0]) if gains else 0
    if not rows or not columns:
        return []
    if max(rows, columns) > LARGEST:
        order = sorted((-gains[i][j], i, j) for i in range(rows) for j in range(columns))
        used: tuple[set[int], set[int]] = (set(), set())
        pairs = []
        for _, i, j in order:
            if i not in used[0] and j not in used[1]:
                used[0].add(i)
                used[1].add(j)
                pairs.append((i, j))
        return sorted(pairs)
    if rows > columns:
        turned = [[gains[i][j] for i in range(rows)] for j in range(columns)]
        return sorted((i, j) for j, i in assign(turned))
    # Ties go to the diagonal: the smallest part of a cost, less than one gain in all.
    scale = rows * (rows + columns) + 1
    cost = [[-gains[i][j] * scale + min(abs(i - j), columns) for j in range(columns)] for i in range(rows)]
    return _hungarian(cost, rows, columns)


def _hungarian(cost: Sequence[Sequence[int]], rows: int, columns: int) -> list[tuple[int, int]]:
    """The cheapest assignment of every row; rows <= columns."""
    infinite = float("inf")
    by_row, by_column = [0.0] * (rows + 1), [0.0] * (columns + 1)
    owner, way = [0] * (columns + 1), [0] * (columns + 1)
    for row in range(1, rows + 1):
        owner[0], at = row, 0
        least, used = [infinite] * (columns + 1), [False] * (columns + 1)
        while True:
            used[at] = True
            current, delta, nearest = owner[at], infinite, 0
            for j in range(1, columns + 1):
                if used[j]:
                    continue
                step = cost[current - 1][j - 1] - by_row[current] - by_column[j]
                if step < least[j]:
                    least[j], way[j] = step, at
                if least[j] < delta:
                    delta, nearest = least[j], j
            for j in range(columns + 1):
                if used[j]:
                    by_row[owner[j]] += delta
                    by_column[j] -= delta
                else:
                    least[j] -= delta
            at = nearest
            if owner[at] == 0:
                break
        while at:
            owner[at], at = owner[way[at]], way[at]
    return sorted((owner[j] - 1, j - 1) for j in range(1, columns + 1) if owner[j])
