#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wraps of subprojects/ can stand in for the packages: what they provide is what meson.build
asks for, in a version that will do, and archives that lie in subprojects/packagecache are the ones
that they name.

Usage: check_wraps.py SOURCE_ROOT"""
import configparser
import hashlib
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
folder = source / "subprojects"
problems = []


def number(version):
    return [int(part) for part in version.split(".")]


def asked_for():
    """Lowest version ("0": any) by name of a dependency."""
    found = {}
    for file in (source / "meson.build", source / "tests/meson.build"):
        for names, rest in re.findall(r"dependency\(((?:'[^']+'(?:, )?)+)(.*)", file.read_text()):
            lowest = re.search(r"version: '>= ([\d.]+)'", rest)
            for name in re.findall(r"'([^']+)'", names):
                found[name] = lowest[1] if lowest else "0"
    return found


def check(wrap, lowest):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(wrap)
    file, provided = parser["wrap-file"], parser["provide"]["dependency_names"].split(", ")
    build = folder / "packagefiles" / file["patch_directory"] / "meson.build"
    if not build.is_file():
        return problems.append("%s: there is no %s" % (wrap.name, build.relative_to(source)))
    text = build.read_text()
    version = re.search(r"version: '([\d.]+)'", text)[1]
    if not file["directory"].endswith("-" + version):
        problems.append("%s: %s says version %s" % (wrap.name, build.relative_to(source), version))
    if not re.fullmatch(r"[0-9a-f]{64}", file["source_hash"]):
        problems.append("%s: source_hash is no SHA-256" % wrap.name)
    if version not in file["source_url"] or version not in file["source_filename"]:
        problems.append("%s: the archive is of another version than %s" % (wrap.name, version))
    for name in provided:
        if "meson.override_dependency('%s'" % name not in text:
            problems.append("%s: %s does not override '%s'"
                            % (wrap.name, build.relative_to(source), name))
        if name not in lowest:
            problems.append("%s: nothing asks for '%s'" % (wrap.name, name))
        elif number(version) < number(lowest[name]):
            problems.append("%s: version %s, and meson.build wants %s"
                            % (wrap.name, version, lowest[name]))
    archive = folder / "packagecache" / file["source_filename"]
    if archive.is_file() and hashlib.sha256(archive.read_bytes()).hexdigest() != file[
        "source_hash"]:
        problems.append("%s: %s has another hash" % (wrap.name, archive.relative_to(source)))


wraps = sorted(folder.glob("*.wrap"))
if not wraps:
    problems.append("there are no wraps below %s" % folder)
for wrap in wraps:
    check(wrap, asked_for())
print("\n".join(problems))
sys.exit(1 if problems else 0)
