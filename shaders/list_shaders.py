# SPDX-License-Identifier: Apache-2.0
"""Writes the header that declares every embedded shader, and their list for whoever walks all of them."""
import sys

output, names = sys.argv[1], sys.argv[2:]
with open(output, "w") as f:
    f.write("/* Made by the build from the tables in shaders/. */\n")
    f.write("#ifndef RF_SHADERS_H\n#define RF_SHADERS_H\n\n#include \"base/shader.h\"\n\n")
    for name in names:
        f.write("extern const rf_shader rf_shader_%s;\n" % name)
    f.write("\n#define RF_ALL_SHADERS(X) \\\n")
    f.write(" \\\n".join("    X(%s)" % name for name in names) + "\n\n#endif\n")
