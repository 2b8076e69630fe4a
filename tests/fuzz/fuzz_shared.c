/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that writes what it likes into shared memory, and what it shows on the local socket. The first byte chooses:
 *   0  acts of both sides, one after the other, until the input ends; each is a byte and what follows it
 *   1  a token as it is   2: laid over an honest one by XOR
 * Only the honest token may pass. Whatever the peer does, this side reads and writes within the memory.
 */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "transport/mesh/internal.h"
#include "transport/shared/internal.h"

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

/* Zeros where it has ended. */
static uint64_t take(input *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)(i < in->size ? in->data[i] : 0) << 8 * i;
    const size_t there = in->size < bytes ? in->size : bytes;
    in->data += there;
    in->size -= there;
    return value;
}

/* Small, so that an input reaches its end, and around it. */
enum { CAPACITY = 4096 };

typedef struct side {
    rf_ring_counts counts[2];
    uint8_t data[2][2 * CAPACITY]; /* the second half stands for the second mapping */
    rf_ring in, out;
    uint64_t lent;
    bool lied;
} side;

static void read_message(side *s)
{
    const uint8_t *data;
    size_t size;
    uint64_t end;
    const rf_result r = rf_ring_read(&s->in, &data, &size, &end);
    if (r == RF_END) return;
    if (r < 0) {
        promise_message();
        s->lied = true;
        return;
    }
    PROMISE(size <= rf_ring_limit(CAPACITY));
    PROMISE(data >= s->data[0] && data + size <= s->data[0] + 2 * CAPACITY);
    PROMISE(end > s->lent && end - s->in.read <= CAPACITY && end <= s->in.written);
    s->lent = end;
}

static void write_message(side *s, size_t size)
{
    uint8_t bytes[CAPACITY] = { 0 };
    const struct iovec part = { bytes, size % rf_ring_limit(CAPACITY) };
    const rf_result r = rf_ring_write(&s->out, &part, 1);
    if (r < 0) promise_message();
    s->lied |= r < 0;
    PROMISE(s->lied || s->out.written - s->out.read <= CAPACITY);
}

static void run_acts(input in)
{
    side *s = aligned_alloc(RF_RING_LINE, sizeof(*s)); /* so that what is beyond it is seen */
    if (!s) abort();
    memset(s, 0, sizeof(*s));
    s->in = (rf_ring){ .counts = &s->counts[0], .data = s->data[0], .capacity = CAPACITY };
    s->out = (rf_ring){ .counts = &s->counts[1], .data = s->data[1], .capacity = CAPACITY };
    while (in.size > 0 && !s->lied) {
        const uint64_t act = take(&in, 1);
        switch (act % 8) {
        case 0: atomic_store(&s->counts[0].written, take(&in, 8)); break;
        case 1: atomic_fetch_add(&s->counts[0].written, RF_RING_LINE * take(&in, 1)); break;
        case 2: atomic_store(&s->counts[1].read, take(&in, 8)); break;
        case 3: atomic_fetch_add(&s->counts[1].read, RF_RING_LINE * take(&in, 1)); break;
        case 4: { /* a message's size, where one may begin */
            const size_t at = take(&in, 1) % (CAPACITY / RF_RING_LINE) * RF_RING_LINE;
            const uint64_t size = act & 8 ? take(&in, 8) : take(&in, 2);
            memcpy(s->data[0] + at, &size, sizeof(size));
            break;
        }
        case 5: read_message(s); break;
        case 6: write_message(s, take(&in, 2)); break;
        default:
            if (s->lent > s->in.read) rf_ring_release(&s->in, s->lent);
        }
        rf_ring_has_message(&s->in);
        rf_ring_has_room(&s->out);
    }
    free(s);
}

static void check_token(input in, bool over)
{
    static rf_mesh meshes[2];
    static rf_shared_card cards[4] = { { .nonce = { 1 } }, { .nonce = { 2 } }, { .nonce = { 3 } }, { .nonce = { 4 } } };
    rf_shared sides[2];
    for (uint32_t i = 0; i < 2; i++) {
        meshes[i].assembly.rank = 2 * i;
        meshes[i].secure = true;
        meshes[i].link_secret[7] = 99;
        sides[i] = (rf_shared){ .mesh = &meshes[i], .rank = 2 * i, .world_size = 4, .cards = cards };
    }
    rf_shared_token honest;
    rf_shared_make_token(&sides[1], RF_SHARED_TOKEN_MAGIC, 2, 0, &honest);
    uint8_t *bytes = malloc(in.size + 1);
    if (!bytes) abort();
    if (in.size > 0) memcpy(bytes, in.data, in.size);
    for (size_t i = 0; over && i < in.size && i < sizeof(honest); i++) bytes[i] ^= ((const uint8_t *)&honest)[i];
    const bool same = in.size == sizeof(honest) && memcmp(bytes, &honest, sizeof(honest)) == 0;
    PROMISE(rf_shared_check_token(&sides[0], RF_SHARED_TOKEN_MAGIC, bytes, in.size) == (same ? 2 : UINT32_MAX));
    free(bytes);
}

FUZZ_TARGET(shared)
{
    if (size == 0) return 0;
    const input in = { data + 1, size - 1 };
    if (data[0] % 3 == 0)
        run_acts(in);
    else
        check_token(in, data[0] % 3 == 2);
    return 0;
}
