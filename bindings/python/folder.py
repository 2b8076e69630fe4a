# SPDX-License-Identifier: Apache-2.0
"""Prints where packages of a prefix are found by this Python: the folder that Meson names, unless
this Python does not look there and looks into another one of the prefix. /usr/local is a prefix of
its own: what is installed into /usr never goes there.

Usage: folder.py PREFIX FOLDER"""
import site
import sys

prefix, folder = sys.argv[1:]
searched = [*site.getsitepackages(), site.getusersitepackages()]
print(folder if folder in searched else next(
    (found for found in searched
     if found.startswith(prefix + "/") and not found.startswith(prefix + "/local/")), folder))
