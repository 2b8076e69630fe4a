/* SPDX-License-Identifier: Apache-2.0 */
#include "run/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "number.h"

static bool host_add(host_list *list, const char *name, size_t length, uint32_t slots, const char *where,
                     char error[512])
{
    /* A leading dash would be an option of ssh. */
    bool good = length > 0 && length < sizeof(list->items[0].name) && name[0] != '-';
    for (size_t i = 0; i < length && good; i++) good = isalnum((unsigned char)name[i]) || strchr("._-:@%", name[i]);
    if (!good) {
        snprintf(error, 512, "%s: '%.*s' is not the name of a host", where, (int)(length < 80 ? length : 80), name);
        return false;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (strlen(list->items[i].name) != length || memcmp(list->items[i].name, name, length) != 0) continue;
        list->items[i].slots += slots;
        return true;
    }
    if (list->count == MAX_WORKERS) {
        snprintf(error, 512, "%s: more than %d hosts", where, MAX_WORKERS);
        return false;
    }
    host *h = &list->items[list->count++];
    *h = (host){ .slots = slots };
    memcpy(h->name, name, length);
    return true;
}

static bool parse_slots(const char *text, size_t length, uint32_t *out)
{
    return parse_decimal(text, length, MAX_WORKERS, out) && *out >= 1;
}

static bool parse_one(host_list *list, const char *text, size_t length, char error[512])
{
    const char *name = text;
    size_t name_length = length;
    uint32_t slots = 1;
    const char *colon = memrchr(text, ':', length);
    const char *bracket = text[0] == '[' ? memchr(text, ']', length) : NULL;
    if (bracket) {
        name = text + 1;
        name_length = (size_t)(bracket - name);
        colon = bracket[1] == ':' && bracket + 1 < text + length ? bracket + 1 : NULL;
        if (!colon && bracket + 1 != text + length) name_length = 0;
    } else if (colon && memchr(text, ':', (size_t)(colon - text))) {
        snprintf(error, 512, "--hosts: '%.*s' has several colons; write an IPv6 address as [address]:slots",
                 (int)length, text);
        return false;
    } else if (colon) {
        name_length = (size_t)(colon - text);
    }
    if (colon && !parse_slots(colon + 1, (size_t)(text + length - colon - 1), &slots)) {
        snprintf(error, 512, "--hosts: the slots of '%.*s' are not a number of 1 to %d",
                 (int)(length < 80 ? length : 80), text, MAX_WORKERS);
        return false;
    }
    return host_add(list, name, name_length, slots, "--hosts", error);
}

bool hosts_parse(host_list *list, const char *text, char error[512])
{
    for (;;) {
        const size_t length = strcspn(text, ",");
        if (!parse_one(list, text, length, error)) return false;
        if (text[length] == '\0') return true;
        text += length + 1;
    }
}

/* Open MPI's word for what a host takes at most; more than the slots are never started. */
static const char *after_most(const char *word)
{
    static const char *const names[] = { "max_slots=", "max-slots=" };
    for (int i = 0; i < 2; i++)
        if (strncmp(word, names[i], strlen(names[i])) == 0) return word + strlen(names[i]);
    return NULL;
}

static bool parse_line(host_list *list, char *line, const char *where, char error[512])
{
    char *rest = NULL;
    line[strcspn(line, "#\r\n")] = '\0';
    const char *name = strtok_r(line, " \t", &rest);
    if (!name) return true;
    uint32_t slots = 1, most = MAX_WORKERS;
    for (const char *word; (word = strtok_r(NULL, " \t", &rest));) {
        const char *number = after_most(word);
        if (number && parse_slots(number, strlen(number), &most)) continue;
        if (strncmp(word, "slots=", 6) == 0 && parse_slots(word + 6, strlen(word + 6), &slots)) continue;
        snprintf(error, 512, "%.380s: '%.60s' is not slots=N or max_slots=N with N of 1 to %d", where, word,
                 MAX_WORKERS);
        return false;
    }
    if (slots > most) {
        snprintf(error, 512, "%.400s: slots=%u is more than max_slots=%u", where, slots, most);
        return false;
    }
    return host_add(list, name, strlen(name), slots, where, error);
}

/* Editors put a mark in front of UTF-8. False: the file is UTF-16. */
static bool skip_mark(char **line)
{
    const unsigned char *u = (const unsigned char *)*line;
    if (u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf) *line += 3;
    return !(u[0] == 0xff && u[1] == 0xfe) && !(u[0] == 0xfe && u[1] == 0xff);
}

bool hosts_read(host_list *list, FILE *f, const char *path, char error[512])
{
    char *line = NULL, where[400];
    size_t size = 0;
    bool ok = true;
    const uint32_t before = list->count;
    for (int number = 1; ok && getline(&line, &size, f) >= 0; number++) {
        snprintf(where, sizeof(where), "hostfile %.300s:%d", path, number);
        char *text = line;
        ok = number > 1 || skip_mark(&text);
        if (ok)
            ok = parse_line(list, text, where, error);
        else
            snprintf(error, 512, "%.400s: the file is UTF-16; save it as UTF-8 or ASCII", where);
    }
    if (ok && ferror(f)) {
        snprintf(error, 512, "hostfile %.300s: cannot be read", path);
        ok = false;
    }
    if (ok && list->count == before) {
        snprintf(error, 512, "hostfile %.300s names no host; write lines such as 'node1 slots=2'", path);
        ok = false;
    }
    free(line);
    return ok;
}

bool hosts_read_file(host_list *list, const char *path, char error[512])
{
    FILE *f = fopen(path, "re");
    if (!f) {
        snprintf(error, 512, "hostfile %.300s: %s", path, strerror(errno));
        return false;
    }
    const bool ok = hosts_read(list, f, path, error);
    fclose(f);
    return ok;
}

bool host_is_loopback(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0;
}

bool host_is_any(const char *address)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found = NULL;
    if (getaddrinfo(address, NULL, &hints, &found) != 0) return false;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)found->ai_addr;
    const bool any = found->ai_family == AF_INET6
                         ? IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)
                         : ((const struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr == htonl(INADDR_ANY);
    freeaddrinfo(found);
    return any;
}

bool host_is_local(const char *name)
{
    char own[256] = "";
    if (host_is_loopback(name)) return true;
    if (gethostname(own, sizeof(own) - 1) != 0) return false;
    return strcasecmp(name, own) == 0 ||
           (own[strcspn(own, ".")] && strlen(name) == strcspn(own, ".") && strncasecmp(name, own, strlen(name)) == 0);
}
