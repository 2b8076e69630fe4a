/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts that `ringfire run` starts workers on. */
#ifndef RINGFIRE_HOSTS_H
#define RINGFIRE_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MAX_WORKERS 1024

typedef struct host {
    char name[256];
    uint32_t slots;
    bool lost; /* was not reached or went away: left out of later attempts */
} host;

typedef struct host_list {
    host items[MAX_WORKERS];
    uint32_t count;
} host_list;

/* "a:2,b,[::1]:4"; slots default to 1. A host named twice has both its slots. False with a line in `error`. */
bool hosts_parse(host_list *list, const char *text, char error[512]);
/* Lines "host slots=N", '#' begins a comment. */
bool hosts_read(host_list *list, FILE *file, const char *name, char error[512]);
bool hosts_read_file(host_list *list, const char *path, char error[512]);
/* Whether this is the machine we run on, by its usual names. */
bool host_is_local(const char *name);
/* Whether only this machine itself calls it so. */
bool host_is_loopback(const char *name);
/* Whether it stands for all addresses of a machine: 0.0.0.0, ::, however they are spelled. */
bool host_is_any(const char *address);

#endif
