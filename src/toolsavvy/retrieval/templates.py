"""Checks of the settings that encoders and rerankers share, before anything is loaded."""

from __future__ import annotations

from toolsavvy.errors import UserError


def check_template(where: str, template: str, *fields: str) -> str:
    """Give back a template that shows each of its fields and asks for no others.

    Args:
        where: the config key.
        template: for `str.format`.
        fields: names; without one of them, every text would be the same.

    Raises:
        UserError: it does not render, or hides a field.
    """
    expected = " and ".join(f"{{{field}}}" for field in fields)
    marks = {field: f"\u241f{field}\u241f" for field in fields}
    try:
        shown = template.format(**marks)
    except (KeyError, IndexError, ValueError, AttributeError) as fault:
        raise UserError(
            f"template {template!r} does not render ({fault})", where=where, expected=expected,
            fix="write braces of your own twice: {{ and }}",
        ) from fault  # fmt: skip
    missing = [f"{{{field}}}" for field in fields if marks[field] not in shown or f"{{{field}}}" not in template]
    if missing:
        raise UserError(f"template {template!r} lacks {', '.join(missing)}", where=where, expected=expected)
    return template


def check_sizes(group: str, batch_size: int, max_length: int | None = None) -> None:
    """Refuse batches and texts of no size, which would crash deep inside a library, or cut everything away.

    Raises:
        UserError: a number below 1.
    """
    for key, value in (("batch_size", batch_size), ("max_length", 1 if max_length is None else max_length)):
        if not value >= 1:
            raise UserError(f"{value} is out of range", where=f"{group}.{key}", expected=">= 1")
