# SPDX-License-Identifier: Apache-2.0
"""Pictures in files."""
import struct
import zlib


def png(width, height, pixels):
    """RGB, each row without a filter."""
    def chunk(name, data):
        return struct.pack(">I",
                           len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR",
                                        header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(
                                            b"IEND", b"")
