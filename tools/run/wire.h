/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between `ringfire run` and its agents (one on each host), through a pipe or ssh. */
#ifndef RINGFIRE_WIRE_H
#define RINGFIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An agent begins with this, so that what login scripts print before it can be told apart. */
#define WIRE_MAGIC "\1ringfire agent\1"
#define WIRE_MAX_FRAME (1u << 24)

enum wire_type {
    /* from the agent */
    WIRE_HELLO = 1, /* version, NUL, a free port of the host in decimal */
    WIRE_STDOUT,    /* bytes that a rank wrote */
    WIRE_STDERR,
    WIRE_EXIT,  /* wait status of a rank in decimal; the rank's output came before */
    WIRE_ERROR, /* the agent could not do its work: text */
    /* to the agent */
    WIRE_START,  /* strings that end in NUL; the first character says what each is, see agent.c */
    WIRE_SIGNAL, /* number in decimal, for all ranks */
    WIRE_STOP,   /* SIGTERM for all ranks, SIGKILL after the grace */
};

typedef struct wire_frame {
    uint32_t type, rank, length;
    const char *data; /* followed by a NUL that is not part of it; valid until the next read */
} wire_frame;

/* Blocks until all is written; false when the other side is gone. */
bool wire_send(int fd, uint32_t type, uint32_t rank, const void *data, size_t length);
bool write_all(int fd, const void *data, size_t length);

typedef struct wire_reader {
    char *buffer;
    size_t used, capacity, taken;
    char overwritten; /* the byte behind the last frame, where its NUL stands */
    bool terminated;
} wire_reader;

/* Room for bytes that come next, and how much of it there is; NULL: out of memory. Then how many of them came. */
char *wire_room(wire_reader *reader, size_t *size);
void wire_came(wire_reader *reader, size_t size);
/* Reads once what is there. 1: something came, 0: end, -1: failure (errno) */
int wire_read(wire_reader *reader, int fd);
/* Drops everything up to the magic and it; false when it is not there yet. *noise is what came before it. */
bool wire_skip_to_magic(wire_reader *reader, size_t *noise);
/* The next complete frame: 1, none yet: 0, nonsense: -1. */
int wire_next(wire_reader *reader, wire_frame *frame);
/* These read what a frame says. False: it says something else. */
bool wire_number(const wire_frame *frame, uint32_t most, uint32_t *out);        /* decimal, all of it */
bool wire_hello(const wire_frame *frame, const char **version, uint16_t *port); /* port 0: the host has no free one */
void wire_free(wire_reader *reader);

#endif
