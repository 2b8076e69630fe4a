/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts for `ringfire run`, which go onto the command line of ssh: the first byte chooses a hostfile or the option
 * --hosts. */
#include <ctype.h>
#include <string.h>

#include "fuzz.h"
#include "run/hosts.h"

static host_list list; /* 270 kB: too much to clear each time */

static void check_hosts(void)
{
    PROMISE(list.count > 0 && list.count <= MAX_WORKERS);
    for (uint32_t i = 0; i < list.count; i++) {
        const host *h = &list.items[i];
        const size_t length = strnlen(h->name, sizeof(h->name));
        PROMISE(length > 0 && length < sizeof(h->name) && h->name[0] != '-' && h->slots > 0 && !h->lost);
        for (size_t k = 0; k < length; k++) PROMISE(isalnum((unsigned char)h->name[k]) || strchr("._-:@%", h->name[k]));
        for (uint32_t k = 0; k < i; k++) PROMISE(strcmp(list.items[k].name, h->name) != 0);
    }
}

static bool read_file(const uint8_t *data, size_t size, char error[512])
{
    FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
    PROMISE(file);
    const bool ok = hosts_read(&list, file, "hosts", error);
    fclose(file);
    return ok;
}

static bool parse(const uint8_t *data, size_t size, char error[512])
{
    char *text = malloc(size + 1);
    PROMISE(text);
    memcpy(text, data, size);
    text[size] = '\0';
    const bool ok = hosts_parse(&list, text, error);
    free(text);
    return ok;
}

FUZZ_TARGET(hosts)
{
    if (size < 2) return 0;
    char error[512] = "";
    list.count = 0;
    const bool ok = data[0] & 1 ? parse(data + 1, size - 1, error) : read_file(data + 1, size - 1, error);
    if (ok)
        check_hosts();
    else
        PROMISE(error[0] && memchr(error, '\0', sizeof(error)));
    return 0;
}
