/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/status/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/memory.h"
#include "base/platform.h"
#include "base/temporary.h"

bool rf_status_parse(const char *text, rf_status_place *out)
{
    char *end = NULL;
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    const unsigned long number = strtoul(port, &end, 10);
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (*port < '0' || *port > '9' || *end || number > UINT16_MAX || length >= sizeof(out->host) || strchr(text, '/'))
        return false;
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    snprintf(out->host, sizeof(out->host), "%.*s", length > 0 ? (int)length : 9, length > 0 ? text : "127.0.0.1");
    out->port = (uint16_t)number;
    return true;
}

void rf_status_settings(rf_job *job, rf_hello *hello)
{
    snprintf(job->name, sizeof(job->name), "ringfire status");
    job->epoch = 0;
    job->encrypt = job->secure;
    *hello = (rf_hello){ .role = "status", .world_size = 1 };
}

char *rf_status_file(const char *directory)
{
    return rf_asprintf("%s/" RF_STATUS_FILE, directory);
}

static rf_result write_text(const char *path, const char *text)
{
    char *temporary = rf_temporary_name(path, 0);
    if (!temporary) return RF_ERROR_OUT_OF_HOST_MEMORY;
    (void)unlink(temporary); /* of an earlier process of this number */
    const size_t length = strlen(text);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, text, length) == (ssize_t)length;
    if (fd >= 0) ok = close(fd) == 0 && ok;
    ok = ok && rename(temporary, path) == 0;
    const rf_result r = ok ? RF_OK : RF_FAIL_ERRNO(RF_ERROR_IO, "cannot write '%s'", path);
    if (!ok && fd >= 0) unlink(temporary);
    rf_free(temporary);
    return r;
}

rf_result rf_status_file_write(const char *path, const rf_status_place *place, const uint8_t key[RF_JOB_KEY_BYTES])
{
    char text[RF_JOB_TEXT + 16 + 2 * RF_JOB_KEY_BYTES];
    const int head =
        snprintf(text, sizeof(text), strchr(place->host, ':') ? "[%s]:%u\n" : "%s:%u\n", place->host, place->port);
    for (int i = 0; i < RF_JOB_KEY_BYTES; i++) snprintf(text + head + 2 * i, 3, "%02x", key[i]);
    const rf_result r = write_text(path, text);
    OPENSSL_cleanse(text, sizeof(text));
    return r;
}

static rf_result read_text(const char *path, char *text, size_t size)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return RF_FAIL_ERRNO(errno == ENOENT ? RF_ERROR_NOT_FOUND : RF_ERROR_IO, "'%s' cannot be opened", path);
    const bool known = fstat(fd, &status) == 0;
    const ssize_t length = known ? read(fd, text, size - 1) : -1;
    rf_result r = length < 0 ? RF_FAIL_ERRNO(RF_ERROR_IO, "'%s' cannot be read", path) : RF_OK;
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    if (r >= 0 && (status.st_mode & 077))
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                    "others can read the key in '%s'; remove the file and start the job again", path);
    return r;
}

rf_result rf_status_file_parse(const char *path, const char *text, size_t length, rf_status_place *place,
                               uint8_t key[RF_JOB_KEY_BYTES])
{
    char address[RF_JOB_TEXT + 16];
    const char *line = memchr(text, '\n', length);
    const size_t size = line ? (size_t)(line - text) : sizeof(address);
    if (size < sizeof(address)) snprintf(address, sizeof(address), "%.*s", (int)size, text);
    if (size >= sizeof(address) || !rf_status_parse(address, place))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' does not say where a job answers", path);
    return rf_key_parse(path, line + 1, length - size - 1, key);
}

rf_result rf_status_file_read(const char *path, rf_status_place *place, uint8_t key[RF_JOB_KEY_BYTES])
{
    char text[RF_JOB_TEXT + 32 + 2 * RF_JOB_KEY_BYTES];
    rf_result r = read_text(path, text, sizeof(text));
    if (r >= 0) r = rf_status_file_parse(path, text, strlen(text), place, key);
    OPENSSL_cleanse(text, sizeof(text));
    return r;
}
