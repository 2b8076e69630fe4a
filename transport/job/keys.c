/* SPDX-License-Identifier: Apache-2.0 */
/* The job key's file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/memory.h"
#include "base/temporary.h"
#include "transport/job/job.h"

#define KEY_DIGITS (2 * RF_JOB_KEY_BYTES)

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

rf_result rf_key_parse(const char *path, const char *text, size_t length, uint8_t key[RF_JOB_KEY_BYTES])
{
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r' || text[length - 1] == ' ')) length--;
    bool good = length == KEY_DIGITS;
    for (size_t i = 0; good && i < RF_JOB_KEY_BYTES; i++) {
        const int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        good = high >= 0 && low >= 0;
        if (good) key[i] = (uint8_t)(high << 4 | low);
    }
    if (good) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                   "key file %s does not hold %d hexadecimal digits; make one with 'ringfire keygen'", path,
                   KEY_DIGITS);
}

static rf_result read_open_file(const char *path, int fd, uint8_t key[RF_JOB_KEY_BYTES])
{
    struct stat info;
    if (fstat(fd, &info) != 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "key file %s", path);
    RF_REQUIRE(S_ISREG(info.st_mode), "key file %s is not a regular file", path);
    RF_REQUIRE((info.st_mode & (S_IRWXG | S_IRWXO)) == 0,
               "key file %s can be read or changed by others (mode %03o); run 'chmod 600 %s'", path,
               (unsigned)(info.st_mode & 0777), path);
    RF_REQUIRE(info.st_uid == geteuid(),
               "key file %s belongs to another user (%u); make one of your own with 'ringfire "
               "keygen'",
               path, (unsigned)info.st_uid);
    char text[KEY_DIGITS + 8];
    size_t length = 0;
    while (length < sizeof(text)) {
        const ssize_t n = read(fd, text + length, sizeof(text) - length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "key file %s", path);
        if (n == 0) break;
        length += (size_t)n;
    }
    const rf_result r = rf_key_parse(path, text, length, key);
    OPENSSL_cleanse(text, sizeof(text));
    return r;
}

rf_result rf_key_read(const char *path, uint8_t key[RF_JOB_KEY_BYTES])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return RF_FAIL_ERRNO(errno == ENOENT ? RF_ERROR_NOT_FOUND : RF_ERROR_IO,
                             "key file %s cannot be opened; make one with 'ringfire keygen %s'", path, path);
    const rf_result r = read_open_file(path, fd, key);
    close(fd);
    return r;
}

static rf_result write_all(const char *path, int fd, const char *text, size_t length)
{
    for (size_t done = 0; done < length;) {
        const ssize_t n = write(fd, text + done, length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "key file %s", path);
        done += (size_t)n;
    }
    if (fsync(fd) != 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "key file %s", path);
    return RF_OK;
}

/* The file appears with its contents: one that is there is never replaced, so a program that is killed must leave none
 * that is half written. */
static rf_result write_new(const char *path, const char *text, size_t size)
{
    char *temporary = rf_temporary_name(path, 0);
    if (!temporary) return RF_ERROR_OUT_OF_HOST_MEMORY;
    (void)unlink(temporary); /* of an earlier process of this number */
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    rf_result r = fd < 0 ? RF_FAIL_ERRNO(RF_ERROR_IO, "key file %s", path) : RF_OK;
    if (r == RF_OK) r = write_all(path, fd, text, size);
    if (fd >= 0 && close(fd) != 0 && r == RF_OK) r = RF_FAIL_ERRNO(RF_ERROR_IO, "key file %s", path);
    if (r == RF_OK && link(temporary, path) != 0)
        r = errno == EEXIST ? RF_FAIL_ERRNO(RF_ERROR_INVALID_ARGUMENT,
                                            "key file %s exists already; a key is never replaced, "
                                            "remove the file first",
                                            path)
                            : RF_FAIL_ERRNO(RF_ERROR_IO, "key file %s", path);
    if (fd >= 0) unlink(temporary);
    rf_free(temporary);
    return r;
}

rf_result rf_key_write(const char *path)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t key[RF_JOB_KEY_BYTES];
    char text[KEY_DIGITS + 1];
    if (RAND_bytes(key, sizeof(key)) != 1)
        return RF_FAIL(RF_ERROR_IO, "the operating system provides no random numbers to make a key of");
    for (size_t i = 0; i < sizeof(key); i++) {
        text[2 * i] = digits[key[i] >> 4];
        text[2 * i + 1] = digits[key[i] & 15];
    }
    text[KEY_DIGITS] = '\n';
    OPENSSL_cleanse(key, sizeof(key));
    const rf_result r = write_new(path, text, sizeof(text));
    OPENSSL_cleanse(text, sizeof(text));
    return r;
}
