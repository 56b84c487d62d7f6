"""Completion in bash: Hydra knows what can follow, this asks it from the shell, however the program is called.

Hydra's own script takes `=` from the shell's word breaks for all programs, and does not know `python -m`.
"""

from __future__ import annotations

import re
import shlex

INSTALL = """\
_toolsavvy_complete() {
  local line="${COMP_LINE:0:COMP_POINT}" word choice
  if [[ $1 == *python* && $line != *[[:space:]]-m[[:space:]]*toolsavvy[[:space:]]* ]]; then return; fi
  local -a ask=("$1")
  if [[ $1 == *python* ]]; then ask+=(-m toolsavvy); fi
  word="${line##*[[:space:]]}"
  # Readline replaces what follows the last of its word breaks, so that much is left out of the answers.
  local kept="" breaks="${COMP_WORDBREAKS//[^=:]/}"
  if [[ -n $breaks && $word == *["$breaks"]* ]]; then kept="${word%"${word##*["$breaks"]}"}"; fi
  COMPREPLY=()
  while IFS= read -r choice; do
    [[ $choice == "$word"* && $choice != schema/* ]] || continue
    [[ $choice == *=* || $choice == *[./] ]] || choice+="/"
    [[ $choice == *[=./] ]] || choice+=" "
    COMPREPLY+=("${choice#"$kept"}")
  done < <(COMP_LINE="$line" "${ask[@]}" -sc query=bash 2>/dev/null | tr ' ' '\\n')
}
complete -o nospace -o default -F _toolsavvy_complete """
UNINSTALL = "unset -f _toolsavvy_complete; complete -r "


def script(command: str, program: str) -> str:
    """What `eval "$(toolsavvy -sc install=bash)"` runs.

    Args:
        command: install or uninstall.
        program: how this program was started, `sys.argv[0]`.
    """
    names = "python python3 toolsavvy" if program.endswith(".py") else "toolsavvy"
    return f"{INSTALL if command == 'install' else UNINSTALL}{names}\n"


def asked(line: str) -> tuple[str, list[str]]:
    """A command line as Hydra's completion reads it, and the flags that say where options are.

    Args:
        line: up to the cursor.

    Returns:
        The line without what starts the program and without `--config-dir FOLDER`; these two words.
    """
    rest = re.sub(r"^\s*(\S*python\S*\s.*?-m\s+)?\S+\s*", "", line, count=1)
    folder = re.search(r"(?:^|\s)(?:--config-dir|-cd)[\s=](\S+)(?=\s)", rest)
    flags = ["--config-dir", shlex.split(folder[1])[0]] if folder else []
    rest = rest.replace(folder[0], "", 1) if folder else rest
    return f"toolsavvy {rest.lstrip()}", flags
