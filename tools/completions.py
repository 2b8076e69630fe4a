# SPDX-License-Identifier: Apache-2.0
"""Writes completions of the `ringfire` command for bash, zsh and fish from what its --help says.

completions.py RINGFIRE BASH ZSH FISH"""
import os
import pathlib
import re
import subprocess
import sys

# Where an option's value is one of these, files are offered; for others nothing is.
FILES = {"FILE", "DIR", "LOGDIR", "PROGRAM", "PATH"}


def asked(tool, *arguments):
    return subprocess.run([tool, *arguments, "--help"], check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def options(text):
    """(short or "", long, value or "", whether it may be left out, purpose) of every option."""
    for line in text.splitlines():
        m = re.match(r"  (?:-(.), |    )--([\w-]+)(\[?)(?:=([^\s\]]+)\]?)?(?:\s+(\S.*))?$", line)
        if m:
            yield m[1] or "", m[2], m[4] or "", bool(m[3]), m[5] or ""


def subcommands(text, name):
    """Words that may come first after the command, such as those of `ringfire ckpt`."""
    return re.findall(r"ringfire %s \[OPTION\.\.\.\] ([a-z]+)\b" % name, text)


def commands(tool):
    """(name, purpose, options, words) of every command."""
    for name, purpose in re.findall(r"^  ([a-z]+)  +(\S.*)$", asked(tool), re.M):
        text = asked(tool, name)
        yield name, purpose, list(options(text)), subcommands(text, name)


def bash(found):
    cases = []
    for name, _, opts, words in found:
        flags = ["--" + o[1] for o in opts] + ["-" + o[0] for o in opts if o[0] not in ("", "?")]
        files = "|".join(f for o in opts if o[2] in FILES and not o[3]
                         for f in ["--" + o[1]] + (["-" + o[0]] if o[0] else []))
        plain = "|".join(f for o in opts if o[2] and o[2] not in FILES and not o[3]
                         for f in ["--" + o[1]] + (["-" + o[0]] if o[0] else []))
        cases.append((name, " ".join(flags), files, plain, " ".join(words)))
    text = ["# Completions of ringfire for bash, written by completions.py.\n_ringfire()\n{\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
            "    local flags words\n"
            "    COMPREPLY=()\n"
            "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
            "        COMPREPLY=($(compgen -W '%s --help --version' -- \"$word\"))\n"
            "        return\n    fi\n    case ${COMP_WORDS[1]} in\n" %
            " ".join(c[0] for c in cases)]
    for name, flags, files, plain, words in cases:
        text.append("    %s)\n        flags='%s'\n        words='%s'\n" % (name, flags, words))
        if files or plain:
            text.append("        case $before in\n")
            if files:
                text.append("        %s)\n            COMPREPLY=($(compgen -f -- \"$word\"))\n"
                            "            return;;\n" % files)
            if plain:
                text.append("        %s) return;;\n" % plain)
            text.append("        esac\n")
        text.append("        ;;\n")
    text.append("    *) return;;\n    esac\n"
                "    if [[ $word == -* ]]; then\n"
                "        COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
                "    elif [ \"$COMP_CWORD\" -eq 2 ] && [ -n \"$words\" ]; then\n"
                "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                "    else\n        COMPREPLY=($(compgen -f -- \"$word\"))\n    fi\n}\n"
                "complete -o filenames -F _ringfire ringfire\n")
    return "".join(text)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(found):
    text = ["#compdef ringfire\n# Written by completions.py.\n_ringfire() {\n"
            "  local -a commands\n  commands=(\n"]
    text += ["    %s\n" % quoted("%s:%s" % (name, purpose.replace(":", "\\:")))
             for name, purpose, _, _ in found]
    text.append("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n"
                "  fi\n  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n"
                "  case $command in\n")
    for name, _, opts, words in found:
        text.append("  %s)\n    _arguments -s \\\n" % name)
        for short, long, value, optional, purpose in opts:
            about = "[%s]" % re.sub(r"([\[\]:])", r"\\\1", purpose)
            ending = (":%s:%s" % (value, "_files" if value in FILES else " ")) if value else ""
            ending = ":" + ending if optional else ending
            equals = ("=-" if optional else "=") if value else ""
            text.append("      %s \\\n" % quoted("--" + long + equals + about + ending))
            if short and short != "?":
                text.append("      %s \\\n" % quoted("-" + short + ("-" if optional else "") +
                                                     about + ending))
        first = "'1:what:(%s)' " % " ".join(words) if words else ""
        text.append("      %s'*:file:_files'\n    ;;\n" % first)
    text.append("  esac\n}\n_ringfire \"$@\"\n")
    return "".join(text)


def fish(found):
    names = " ".join(c[0] for c in found)
    text = ["# Completions of ringfire for fish, written by completions.py.\n"]
    none = "not __fish_seen_subcommand_from %s" % names
    for name, purpose, opts, words in found:
        text.append("complete -c ringfire -f -n %s -a %s -d %s\n" % (quoted(none), name,
                                                                    quoted(purpose)))
        here = "__fish_seen_subcommand_from " + name
        for word in words:
            text.append("complete -c ringfire -n %s -a %s\n" %
                        (quoted("%s; and not __fish_seen_subcommand_from %s" %
                                (here, " ".join(words))), word))
        for short, long, value, optional, purpose in opts:
            text.append("complete -c ringfire -n %s%s -l %s%s -d %s\n" %
                        (quoted(here), " -s " + short if short not in ("", "?") else "", long,
                         "" if not value or optional else " -r" if value in FILES else " -x",
                         quoted(purpose)))
    return "".join(text)


def main():
    tool, *outs = sys.argv[1:]
    found = list(commands(tool))
    if not found or not all(c[2] for c in found):
        sys.exit("%s --help lists no commands, or one of them no options" % tool)
    for out, write in zip(outs, (bash, zsh, fish)):
        pathlib.Path(out).write_text(write(found))


if __name__ == "__main__":
    main()
