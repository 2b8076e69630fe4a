/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first message of another rank in a collective call: a header and, behind it, the first data, sealed or not. The
 * very call passes, whatever it is named, and anything else is refused in one line. The first byte says how:
 *   bit 0  the rest is laid over this rank's header by XOR and compared; else over a whole message, as it arrives:
 *   bit 1  sealed   bit 2: with 24 bytes of data behind the header   bits 3..7: so many bytes too few
 */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "transport/collective/comm_engine_internal.h"

enum { DATA = 24, LARGEST = sizeof(rf_call_header) + DATA + RF_SEAL_BYTES };

static rf_engine engine;

static void make_header(void)
{
    engine.header = (rf_call_header){ .magic = RF_CALL_MAGIC,
                                      .serial = 7,
                                      .count = 100,
                                      .chunk = 4096,
                                      .kind = RF_COLLECTIVE_ALL_REDUCE,
                                      .dtype = RF_F32,
                                      .wire = RF_BF16,
                                      .name = "gradients" };
}

static void lay_over(uint8_t *message, size_t message_size, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size && i < message_size; i++) message[i] ^= data[i];
}

/* Whether the other rank means the same call. */
static bool means_the_same(const rf_call_header *got)
{
    /* The bytes behind the name are zero in every header. */
    rf_call_header expected = engine.header;
    expected.payload = got->payload;
    memcpy(expected.name, got->name, sizeof(got->name));
    return memcmp(got, &expected, sizeof(*got)) == 0;
}

static void header(const uint8_t *data, size_t size)
{
    rf_peer peer = { .rank = 1 };
    rf_call_header got = engine.header;
    lay_over((uint8_t *)&got, sizeof(got), data, size);
    const rf_result r = rf_engine_check_header(&engine, &peer, &got);
    PROMISE((r == RF_OK) == means_the_same(&got));
    PROMISE(r == RF_OK || rf_error_message()[0]);
}

static void message(bool sealed, uint32_t payload, size_t missing, const uint8_t *data, size_t size)
{
    static const uint8_t keys[2][RF_JOB_KEY_BYTES] = { { 1 }, { 2 } };
    rf_seal *ours = NULL, *theirs = NULL;
    rf_call_header said = engine.header;
    uint8_t body[DATA], came[LARGEST], *in;
    size_t came_size = sizeof(said) + payload;
    said.payload = payload;
    memset(body, 'd', sizeof(body));
    memcpy(came, &said, sizeof(said));
    memcpy(came + sizeof(said), body, payload);
    if (sealed) {
        if (rf_seal_create(keys[0], keys[1], &ours) < 0 || rf_seal_create(keys[1], keys[0], &theirs) < 0) abort();
        if (rf_seal_close(theirs, &said, sizeof(said), body, payload, came) < 0) abort();
        came_size += RF_SEAL_BYTES;
    }
    uint8_t honest[LARGEST];
    memcpy(honest, came, sizeof(honest));
    lay_over(came, came_size, data, size);
    const bool same = missing == 0 && memcmp(honest, came, came_size) == 0;
    came_size -= missing;
    /* It has the very size, so that reads beyond it are seen. */
    if (!(in = malloc(came_size))) abort();
    memcpy(in, came, came_size);
    rf_peer peer = { .rank = 1, .seal = ours, .in = in, .in_op.size = came_size, .in_payload = payload };
    peer.in_state = RF_HEADER_POSTED;
    engine.headers_open = 1;
    const rf_result r = rf_engine_header_came(&engine, &peer);
    PROMISE((r == RF_OK) == (peer.in_state == RF_HEADER_DONE) && (r == RF_OK) == (engine.headers_open == 0));
    PROMISE(!same || r == RF_OK);
    if (sealed)
        PROMISE(same || r < 0);
    else if (r == RF_OK)
        PROMISE(came_size == sizeof(said) + payload && means_the_same((const rf_call_header *)(const void *)came));
    PROMISE(r == RF_OK || rf_error_message()[0]);
    rf_seal_destroy(&ours);
    rf_seal_destroy(&theirs);
    free(in);
}

FUZZ_TARGET(call_header)
{
    if (size == 0) return 0;
    make_header();
    if (data[0] & 1)
        header(data + 1, size - 1);
    else
        message(data[0] & 2, data[0] & 4 ? DATA : 0, data[0] >> 3, data + 1, size - 1);
    return 0;
}
