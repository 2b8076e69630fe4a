/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

#include "base/error.h"

uint32_t rf_utf8_decode(const char *text, size_t size, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const uint8_t *bytes = (const uint8_t *)text;
    if (bytes[0] < 0x80) {
        *code = bytes[0];
        return 1;
    }
    const uint32_t length = bytes[0] < 0xc0 ? 0 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : bytes[0] < 0xf8 ? 4 : 0;
    *code = RF_UTF8_INVALID;
    if (length == 0 || length > size) return 1;
    uint32_t value = bytes[0] & (0x7fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 1;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return 1;
    *code = value;
    return length;
}

uint32_t rf_utf8_encode(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const uint32_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)((0xf00u >> length & 0xff) | code);
    return length;
}

bool rf_utf8_valid(const char *text, size_t size)
{
    uint32_t code;
    for (size_t i = 0; i < size;) {
        i += rf_utf8_decode(text + i, size - i, &code);
        if (code == RF_UTF8_INVALID) return false;
    }
    return true;
}

#define CONVERT(name) "is " name "; convert it to UTF-8: iconv -f " name " -t UTF-8"

rf_result rf_utf8_begin(const void *bytes, size_t size, size_t *begin)
{
    enum { LOOKED_AT = 4096 };
    static const struct {
        const char *first;
        size_t size;
        bool zeros; /* follow, or these are bytes of some other kind */
        const char *problem;
    } others[] = {
        { "\xff\xfe\0\0", 4, true, CONVERT("UTF-32") },
        { "\0\0\xfe\xff", 4, true, CONVERT("UTF-32") },
        { "\xff\xfe", 2, true, CONVERT("UTF-16") },
        { "\xfe\xff", 2, true, CONVERT("UTF-16") },
        { "PK\3\4", 4, false, "is a zip archive, as spreadsheets are; unpack it, or save it as text" },
        { "\xfd"
          "7zXZ",
          6, false, "is compressed with xz; unpack it, or use gzip" },
        { "\x28\xb5\x2f\xfd", 4, false, "is compressed with zstd; unpack it, or use gzip" },
        { "BZh91AY&SY", 10, false, "is compressed with bzip2; unpack it, or use gzip" },
    };
    *begin = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (size < others[i].size || memcmp(bytes, others[i].first, others[i].size) != 0) continue;
        if (!others[i].zeros || memchr(bytes, 0, size < LOOKED_AT ? size : LOOKED_AT))
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s", others[i].problem);
    }
    return RF_OK;
}
