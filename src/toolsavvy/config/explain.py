"""Turns what Hydra and OmegaConf say into one message: what is wrong, where, what was expected, did you mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from toolsavvy.errors import UserError

Groups = Mapping[str, Sequence[str]]
_COMMAND_LINE = "command line"
_ALIKE = 0.65
_LISTS = ("retriever", "suite", "stages", "runs")


def explain(error: Exception, overrides: Sequence[str], groups: Groups, conf: Path) -> UserError:
    """Rewrite an error of composition or resolution.

    Args:
        error: what Hydra, OmegaConf or the YAML reader raised.
        overrides: the command line.
        groups: group -> options, for suggestions.
        conf: folder of the YAML files.
    """
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, UserError):
            return cause
    for rule in (_yaml_syntax, _missing_option, _grammar, _ambiguous, _no_option, _bad_key, _bad_value):
        found = rule(chain, overrides, groups, conf)
        if found is not None:
            return found
    return UserError(_first_line(error), where=_file(chain, conf) or _COMMAND_LINE, fix="see toolsavvy --help")


def unknown_key(key: str, path: str, options: Iterable[str], where: str) -> UserError:
    """A key that the part does not have."""
    names = sorted(str(o) for o in options)
    expected = f"a key of {path}: {', '.join(names)}" if path else f"one of {', '.join(names)}"
    full = f"{path}.{key}" if path else key
    return UserError(f"unknown key '{full}'", where=where, expected=expected, fix=_near(key, names))


def _near(word: str, names: Sequence[str]) -> str:
    """The nearest name, or nothing: the whole list already stands under 'expected'.

    A word may also be the beginning of a longer name, slightly misspelt ('smolm').
    """

    def likeness(name: str) -> float:
        whole, start = SequenceMatcher(None, word, name), SequenceMatcher(None, word, name[: len(word) + 1])
        return max(whole.ratio(), start.ratio())

    best = max(names, key=likeness, default="")
    return f"did you mean '{best}'?" if best and likeness(best) >= _ALIKE else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything it came from."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _first_line(error: BaseException) -> str:
    """The first line of a message, which is the part for people."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _file(chain: Sequence[BaseException], conf: Path) -> str:
    """The YAML file that Hydra names as "In 'model/toy': ...", relative to the project where possible."""
    for cause in chain:
        named = re.search(r"In '([^']+)'", str(cause))
        if named:
            is_ours = (conf / f"{named[1]}.yaml").is_file()
            return f"{conf.name}/{named[1]}.yaml" if is_ours else f"{named[1]}.yaml"
    return ""


def _yaml_syntax(chain: Sequence[BaseException], _o: Sequence[str], _g: Groups, conf: Path) -> UserError | None:
    """A file that is no YAML."""
    mark = next((m for c in chain if (m := getattr(c, "problem_mark", None)) is not None), None)
    if mark is None:
        return None
    name = str(mark.name).strip('"')
    name = f"{conf.name}/{Path(name).relative_to(conf)}" if Path(name).is_relative_to(conf) else name
    problem = next(str(p) for c in chain if (p := getattr(c, "problem", None)))
    return UserError(problem, where=f"{name}, line {mark.line + 1}, column {mark.column + 1}", expected="valid YAML")


def _missing_option(
    chain: Sequence[BaseException], overrides: Sequence[str], groups: Groups, conf: Path
) -> UserError | None:
    """An option that its group does not have, or an override of a group that does not exist."""
    missing = next((m for c in chain if (m := getattr(c, "missing_cfg_file", None))), None)
    if missing is None:
        return None
    group, _, option = str(missing).rpartition("/")
    options = tuple(next((o for c in chain if (o := getattr(c, "options", None))), ())) or groups.get(group, ())
    typed = next((o for o in overrides if option in o and o.lstrip("+").startswith(group)), "")
    where = f"{_COMMAND_LINE}, {typed}" if typed else _file(chain, conf)
    expected = f"one of {', '.join(options)}" if options else f"a file {conf.name}/{missing}.yaml"
    fix = _near(option, options) or (
        f"correct {typed}; an option of your own needs --config-dir FOLDER" if typed else ""
    )
    return UserError(f"'{group}' has no option '{option}'", where=where, expected=expected, fix=fix)


def _grammar(chain: Sequence[BaseException], _o: Sequence[str], _g: Groups, _c: Path) -> UserError | None:
    """An override that cannot be parsed."""
    bad = next((o for c in chain if isinstance(o := getattr(c, "override", None), str)), None)
    if bad is None:
        return None
    key, _, value = bad.partition("=")
    is_bare = value and not set(value) & set("'\"[]{}$\\")
    fix = "quote it for the shell: 'retriever=[bm25,dense]', \"key='a, b'\""
    fix = f"quote the value, for the shell too: \"{key}='{value}'\"" if is_bare else fix
    fix = f"write {bad}=VALUE, or see toolsavvy --help" if bad.replace(".", "").isidentifier() else fix
    return UserError(f"cannot read '{bad}'", where=_COMMAND_LINE, expected="key=value", fix=fix)


def _ambiguous(chain: Sequence[BaseException], _o: Sequence[str], _g: Groups, _c: Path) -> UserError | None:
    """A sweep without -m."""
    found = next((m for c in chain if (m := re.match(r"Ambiguous value for argument '([^']+)'", str(c)))), None)
    if found is None:
        return None
    key, _, value = found[1].partition("=")
    fix = f"several runs: toolsavvy -m {found[1]}"
    fix += f"; one run with several: '{key}=[{value}]'" if key in _LISTS else ""
    return UserError(f"several values for '{key}'", where=f"{_COMMAND_LINE}, {found[1]}", expected="one value", fix=fix)


def _no_option(chain: Sequence[BaseException], overrides: Sequence[str], groups: Groups, _c: Path) -> UserError | None:
    """A group that is set to null or the like."""
    if not any(str(c).startswith("Config group override must be") for c in chain):
        return None
    typed = next((o for o in overrides if (k := o.lstrip("+").partition("="))[0] in groups and k[2] == "null"), "")
    group = typed.lstrip("+").partition("=")[0]
    where = f"{_COMMAND_LINE}, {typed}" if typed else _COMMAND_LINE
    expected = f"one of {', '.join(groups[group])}" if typed else "an option, or a list of them"
    fix = f"'{group}=[]' for none" if group in _LISTS else ""
    return UserError(f"'{group}' must be an option of its group", where=where, expected=expected, fix=fix)


def _bad_key(chain: Sequence[BaseException], overrides: Sequence[str], groups: Groups, conf: Path) -> UserError | None:
    """A key that does not exist, on the command line or in a file."""
    unmatched = next((m for c in chain if (m := re.match(r"Could not (?:override|delete) '([^']+)'", str(c)))), None)
    cause = next((c for c in chain if isinstance(c, OmegaConfBaseException) and _is_key_error(c)), None)
    if cause is not None:
        path, _, key = str(cause.full_key or cause.key).rpartition(".")
        where = _where(f"{path}.{key}" if path else key, overrides, chain, conf)
        return unknown_key(key, path, _options(cause, path, groups), where)
    if unmatched is None:
        return None
    name = unmatched[1].split("@")[0]
    if name in groups:
        where = _where(name, overrides, chain, conf)
        return UserError(f"'{name}' cannot be taken away", where=where, fix=f"'{name}=[]'" if name in _LISTS else "")
    groups = {g: o for g, o in groups.items() if g != "hydra"}
    return unknown_key(name, "", groups, _where(name, overrides, chain, conf))


def _is_key_error(error: OmegaConfBaseException) -> bool:
    """Whether a key was asked for that is not there."""
    return bool(re.match(r"Key '.*' (is )?not in ", str(error)))


def _options(error: OmegaConfBaseException, path: str, groups: Groups) -> list[str]:
    """The keys that would have been right: of the schema, or of the node."""
    names: set[str] = set()
    kind: Any = error.object_type
    if is_dataclass(kind):
        names |= {f.name for f in fields(kind)}
    elif isinstance(error.parent_node, DictConfig):
        names |= {str(k) for k in error.parent_node}
    if not path:
        names |= set(groups)
    return sorted(n for n in names if n != "hydra" and not n.startswith("_"))


def _where(key: str, overrides: Sequence[str], chain: Sequence[BaseException], conf: Path) -> str:
    """The override that names the key, or else the file."""
    typed = next((o for o in overrides if o.lstrip("+~").split("=")[0].split("@")[0] == key), None)
    return f"{_COMMAND_LINE}, {typed}" if typed else (_file(chain, conf) or _COMMAND_LINE)


def _bad_value(
    chain: Sequence[BaseException], overrides: Sequence[str], groups: Groups, conf: Path
) -> UserError | None:
    """A value of the wrong type, one that is missing, or an interpolation that leads nowhere."""
    cause = next((c for c in chain if isinstance(c, OmegaConfBaseException)), None)
    if cause is None:
        return None
    # Whatever refers to a key (llm.seed to seed) meets its fault first: the override that brought it in is to blame.
    lost = re.search(r"Interpolation key '([^']+)' not found", str(cause))
    guilty = next((o for o in overrides if lost and f"${{{lost[1]}}}" in o), None)
    key = guilty.lstrip("+~").partition("=")[0] if guilty else str(cause.full_key or cause.key or "")
    where = _where(key, overrides, chain, conf)
    if "Missing mandatory value" in str(cause):
        return UserError(f"'{key}' has no value", where="config", expected="a value", fix=f"add {key}=...")
    kind = re.search(r"could not be converted to (\w+)", str(cause))
    expected = f"a value of type {kind[1].lower()}" if kind else _expected(str(cause))
    fix = f"'{key}=[A,B]'" if expected == "a list" else ""
    if lost:  # ${retriever.bm25}, which exists as an option and was not chosen
        part, _, option = lost[1].partition(".")
        if part in _LISTS and (name := option.partition(".")[0]) in groups.get(part, ()):
            fix = f"choose it too: '{part}=[{name},...]'"
    if "is not a subclass of RecipeConfig" in str(cause):
        expected, fix = "a whole recipe", "'+method.recipes={NAME:{epochs:3,replay:[document]}}'"
    if "is not a subclass of ContrastiveRecipeConfig" in str(cause):
        expected, fix = "a whole recipe", "'+method.recipes={NAME:{epochs:3,negatives:2}}'"
    if "is not a subclass of FusionConfig" in str(cause):
        expected, fix = "a whole fusion", "'+method.fusions={NAME:{members:[bm25,toolgen_plain]}}'"
    what = _first_line(cause)
    if "does not support deletion" in what:
        what, fix = f"'{key}' cannot be taken away", f"leave ~{key} out, or give it a value: {key}=..."
    return UserError(f"{what} ('{key}')" if key and key not in what else what, where=where, expected=expected, fix=fix)


def _expected(message: str) -> str:
    """What OmegaConf's messages about types leave unsaid."""
    told = {
        "not a valid bool": "true or false",
        "is not a ListConfig": "a list",
        "is not a DictConfig": "a mapping {key:value}",
        "is not Optional": "a value, not null",
        "nterpolation": "a key of the configuration, or a variable that is set",
    }
    return next((words for part, words in told.items() if part in message), "")
