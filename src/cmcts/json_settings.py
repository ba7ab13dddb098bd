"""Settings to and from JSON: the dataclasses say what is valid, and whatever else a file says is refused by name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from cmcts.errors import InvalidInput

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def dump(value: Any, indent: int | None = None) -> bytes:
    """Plain values, or dataclasses of them, as JSON; numbers that JSON does not know are refused."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False, default=asdict).encode()
    except ValueError:
        raise InvalidInput("expected finite numbers, the only ones that JSON knows, got infinity or NaN") from None


def parse(text: bytes | str) -> Any:
    """What a JSON text says; refuses what programs read differently: names given twice, infinity and NaN."""
    try:
        return json.loads(text, object_pairs_hook=_once_each, parse_constant=_refused)
    except InvalidInput:
        raise
    except (ValueError, RecursionError):
        raise InvalidInput("expected valid JSON, got something else") from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"expected every name once, got {twice!r} twice")
    return values


def _refused(constant: str) -> Any:
    raise InvalidInput(f"expected finite numbers, got {constant}")


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """The same with a digest of it all, by which a bit that flips is found. It keeps nobody from writing another."""
    return {**values, "check": _digest(values)}


def unsealed(values: Any, name: str, *, always: bool = False) -> Any:
    """What was sealed, if it is still what it was; what was never sealed is taken as it is, unless it `always` is."""
    if not isinstance(values, dict) or "check" not in values:
        if always:
            raise InvalidInput(
                f"{name} is damaged: it has no 'check', by which it would be known to be what was written"
            )
        return values
    content = {key: value for key, value in values.items() if key != "check"}
    if values["check"] != _digest(content):
        raise InvalidInput(f"{name} is damaged: it is not what was written (whoever changes it removes its 'check')")
    return content


def _digest(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, default=asdict)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """The values of settings by name, with dots where settings hold other settings."""
    values: dict[str, Any] = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        values |= flat(value, f"{prefix}{field.name}.") if is_dataclass(value) else {f"{prefix}{field.name}": value}
    return values


def convert(raw: Any, kind: type[T], *, complete: bool = False) -> T:
    """A settings dataclass from parsed JSON: types must match, unknown names are refused at every level.

    Names that are missing take their defaults, unless the settings must be `complete`.
    """
    import msgspec

    try:
        settings = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).replace("`", "").partition(" - at $")
        where = f"{place.removeprefix('.')}: " if place else ""
        raise InvalidInput(f"{where}{message[0].lower()}{message[1:]}") from None
    _refuse_other_names(raw, asdict(settings), "", complete)
    return settings


def _refuse_other_names(raw: Any, known: Any, place: str, complete: bool) -> None:
    """Compare with the fields that the settings have: msgspec ignores other names."""
    if not isinstance(known, dict):
        return
    if unknown := sorted(set(raw) - set(known)):
        raise InvalidInput(f"expected known names only, got {place}{unknown[0]}")
    if complete and (missing := sorted(set(known) - set(raw))):
        raise InvalidInput(f"expected a value for {place}{missing[0]}, got none")
    for name, value in raw.items():
        _refuse_other_names(value, known[name], f"{place}{name}.", complete)
