/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the tasks of a parameter-server cluster: the body of a frame is the message's numbers (eight
 * bytes each, little-endian, in the order of the table in message.c), its text where it has one, and the rest is
 * payload. Parameters and gradients travel in several messages of at most RF_PS_CHUNK elements, so that others fit in
 * between.
 */
#ifndef RF_SERVER_MESSAGE_H
#define RF_SERVER_MESSAGE_H

#include "base/error.h"

#define RF_PS_CHUNK (1u << 20) /* elements */
#define RF_PS_TEXT 960
#define RF_PS_HEAD_MAX 1088 /* numbers and text of any message */

typedef enum rf_ps_message_type {
    RF_PS_BEAT = 1, /* a sign of life */
    RF_PS_ABORT,    /* the job has failed: result, text */
    RF_PS_END,      /* the job is done */
    RF_PS_FAILED,   /* the sender could not do what it was asked: id, result, text */
    /* chief and server */
    RF_PS_INIT,      /* server (number `index` of `servers`) gets `count` elements, whose next version is `version`;
                        payload: elements of each of `groups` groups (plan.h), and the optimizer. Followed by VALUES: the
                        elements, and those of `slots` slots of what groups have */
    RF_PS_READY,     /* the answer when they are in place */
    RF_PS_COMMIT,    /* synchronous: add shares 0 .. count - 1 of `step` and update; count 0: drop them */
    RF_PS_COMMITTED, /* the answer: version */
    RF_PS_EXPEL,     /* ends the connections of a worker that was given up: rank, incarnation */
    /* client (worker or chief) and server */
    RF_PS_PULL,   /* asks for VALUES; slot: 0, or 1 + number of the optimizer's slot */
    RF_PS_VALUES, /* payload: elements from `offset` on, of `version` */
    RF_PS_PUSH,   /* payload: gradients from `offset` on, made from `version` with `examples`; what no optimizer updates
                     has the step's changes instead. `step` and `share` count in synchronous training */
    RF_PS_PUSHED, /* the answer when all elements have come: version, staleness */
    /* chief and worker */
    RF_PS_JOIN,    /* count variables, hash of their names and shapes; own: 1 where functions have data of this worker;
                      limit: the bits of the norm that it clips to */
    RF_PS_WELCOME, /* synchronous, count: elements of a segment at most; payload: the rule of each variable, a byte */
    RF_PS_WORK,    /* text: function; id, step, share of `shares`, offset (first example), examples, number: of the
                      function's work before, row: examples of the shares before, seed of random numbers */
    RF_PS_DONE, /* id, examples, staleness, step: 1 if gradients were pushed, hash of a batch of its own data; payload:
                   results */
    RF_PS_TYPE_COUNT
} rf_ps_message_type;

typedef struct rf_ps_message {
    uint16_t type;
    rf_result result;
    uint64_t version, step, share, examples, offset, count, id, index, servers, synchronous, rank, incarnation, hash,
        staleness, groups, slots, slot, own, shares, number, row, seed, limit;
    char text[RF_PS_TEXT];
    const void *payload; /* borrowed */
    size_t payload_size;
} rf_ps_message;

/* Everything but the payload, which follows it. */
rf_result rf_ps_message_encode(const rf_ps_message *message, uint8_t head[RF_PS_HEAD_MAX], size_t *head_size);
/* RF_ERROR_CORRUPT_DATA when the bytes are no message. The payload stays where it is. */
rf_result rf_ps_message_decode(uint16_t type, const void *body, size_t size, rf_ps_message *out);
/* Takes elements of an array of `count` elements that arrives in several messages; *have of them are there. Returns
 * false, and takes nothing, when these are not the next ones. */
bool rf_ps_message_take(const rf_ps_message *message, float *array, uint64_t count, uint64_t *have);

#endif
