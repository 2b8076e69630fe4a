/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives the chunks of a schedule. Both directions go through the steps in order, each at its own pace. */
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/profiler.h"
#include "transport/collective/comm_engine_internal.h"

static bool has_reached(rf_position at, uint32_t step, uint64_t offset)
{
    return at.step > step || (at.step == step && at.offset >= offset);
}

/* ---- which chunk is next ---- */

static void next_send(rf_engine *e)
{
    const rf_collective_schedule *s = &e->schedule;
    rf_position *p = &e->out_next;
    while (p->step < s->count && (s->items[p->step].to < 0 || p->offset >= s->items[p->step].send_count))
        *p = (rf_position){ p->step + 1, 0 };
}

static void next_receive(rf_engine *e)
{
    const rf_collective_schedule *s = &e->schedule;
    rf_position *p = &e->in_next;
    while (p->step < s->count && (s->items[p->step].from < 0 || p->offset >= s->items[p->step].receive_count))
        *p = (rf_position){ p->step + 1, 0 };
}

void rf_engine_rewind(rf_engine *e)
{
    e->in_next = e->out_next = e->received = e->sent = (rf_position){ 0, 0 };
    e->in_head = e->in_tail = e->out_head = e->out_tail = 0;
    next_send(e);
    next_receive(e);
}

bool rf_engine_finished(const rf_engine *e)
{
    const uint32_t end = e->schedule.count;
    return e->headers_open == 0 && e->in_next.step == end && e->out_next.step == end && e->in_head == e->in_tail &&
           e->out_head == e->out_tail;
}

int32_t rf_engine_awaited(const rf_engine *e)
{
    if (e->in_head != e->in_tail) return e->schedule.items[e->in[e->in_head % RF_ENGINE_IN].step].from;
    if (e->out_head != e->out_tail) return e->schedule.items[e->out[e->out_head % RF_ENGINE_OUT].step].to;
    for (uint32_t i = 0; i < e->num_active; i++) {
        const rf_peer *peer = e->peers[e->active[i]];
        if (peer->in_state == RF_HEADER_POSTED || peer->out_state == RF_HEADER_POSTED) return (int32_t)peer->rank;
    }
    return -1;
}

/* ---- what depends on what ---- */

/* An empty place overlaps nothing, wherever it stands: nothing is ever received into it, for others to wait for. */
static bool places_overlap(rf_place a, uint64_t a_count, rf_place b, uint64_t b_count)
{
    return a_count > 0 && b_count > 0 && a.space == b.space && a.begin < b.begin + b_count &&
           b.begin < a.begin + a_count;
}

/* The last step before `before` that receives into the range, or -1: none but some that are done with. */
static int64_t receives_into(const rf_engine *e, uint32_t before, rf_place place, uint64_t count)
{
    for (int64_t t = (int64_t)before - 1; t >= (int64_t)e->received.step; t--) {
        const rf_collective_step *step = &e->schedule.items[t];
        if (step->from >= 0 && places_overlap(step->receive, step->receive_count, place, count)) return t;
    }
    return -1;
}

/* The last step up to `last` that sends from the range, or -1: none but some that are done with. */
static int64_t sends_from(const rf_engine *e, uint32_t last, rf_place place, uint64_t count)
{
    for (int64_t t = last; t >= (int64_t)e->sent.step; t--) {
        const rf_collective_step *step = &e->schedule.items[t];
        if (step->to >= 0 && places_overlap(step->send, step->send_count, place, count)) return t;
    }
    return -1;
}

/* Whether `at` has passed what the elements up to `end` (absolute) need of the step's range [begin, begin + count).
 * Earlier steps are behind it then, too. */
static bool has_passed(rf_position at, int64_t step, uint64_t begin, uint64_t count, uint64_t end)
{
    const uint64_t need = end <= begin ? 0 : end - begin;
    return has_reached(at, (uint32_t)step, need < count ? need : count);
}

static bool may_send(const rf_engine *e, uint32_t s, uint64_t offset, uint64_t count)
{
    const rf_collective_step *step = &e->schedule.items[s];
    const int64_t t = receives_into(e, s, step->send, step->send_count);
    if (t < 0) return true;
    const rf_collective_step *needed = &e->schedule.items[t];
    return has_passed(e->received, t, needed->receive.begin, needed->receive_count, step->send.begin + offset + count);
}

/* Nobody may write where something is still to be sent from. */
static bool may_write(const rf_engine *e, uint32_t s, uint64_t offset, uint64_t count)
{
    const rf_collective_step *step = &e->schedule.items[s];
    const int64_t t = sends_from(e, s, step->receive, step->receive_count);
    if (t < 0) return true;
    const rf_collective_step *sender = &e->schedule.items[t];
    return has_passed(e->sent, t, sender->send.begin, sender->send_count, step->receive.begin + offset + count);
}

/* Nor, ahead of its turn, where something that came earlier is still to be added. */
static bool may_land(const rf_engine *e, uint32_t s, uint64_t offset, uint64_t count)
{
    const rf_collective_step *step = &e->schedule.items[s];
    const int64_t t = receives_into(e, s, step->receive, step->receive_count);
    if (t >= 0) {
        const rf_collective_step *earlier = &e->schedule.items[t];
        if (!has_passed(e->received, t, earlier->receive.begin, earlier->receive_count,
                        step->receive.begin + offset + count))
            return false;
    }
    return may_write(e, s, offset, count);
}

/* ---- out ---- */

static uint64_t chunk_count(const rf_engine *e, uint64_t offset, uint64_t total)
{
    return total - offset < e->chunk ? total - offset : e->chunk;
}

static uint8_t *place_address(const rf_engine *e, rf_place place, uint64_t offset)
{
    return e->space[place.space] + (place.begin + offset) * e->element;
}

static void *space_descriptor(const rf_engine *e, rf_space space)
{
    return space == RF_SPACE_INPUT    ? e->input_memory.descriptor
           : space == RF_SPACE_OUTPUT ? e->output_memory.descriptor
                                      : e->scratch_memory.descriptor;
}

static uint8_t *bounce_slot(const rf_engine *e, bool out, uint64_t slot)
{
    return e->bounce + (out ? RF_ENGINE_IN + slot % RF_ENGINE_OUT : slot % RF_ENGINE_IN) * RF_ENGINE_SLOT;
}

/* Prepares what travels: `parts` of the message, made ready in the slot's bounce buffer where memory and wire
 * differ. */
static rf_result chunk_prepare(rf_engine *e, rf_peer *peer, rf_chunk *chunk, bool merged, struct iovec parts[2],
                               void *descriptors[2], uint32_t *num_parts)
{
    const rf_collective_step *step = &e->schedule.items[chunk->step];
    uint8_t *data = place_address(e, step->send, chunk->offset);
    const size_t size = chunk->count * e->wire_element;
    void *known = space_descriptor(e, step->send.space);
    if (e->call->wire) {
        uint8_t *packed = bounce_slot(e, true, e->out_tail);
        rf_floats_narrow(packed, e->call->wire, (const float *)(void *)data, chunk->count);
        if (step->keeps) rf_floats_widen((float *)(void *)data, packed, e->call->wire, chunk->count);
        data = packed;
        known = e->bounce_memory.descriptor;
    }
    if (peer->seal) {
        uint8_t *sealed = merged ? peer->out : bounce_slot(e, true, e->out_tail);
        RF_TRY(rf_seal_close(peer->seal, &peer->header, merged ? sizeof(peer->header) : 0, data, size, sealed));
        parts[0] = (struct iovec){ sealed, (merged ? sizeof(peer->header) : 0) + size + RF_SEAL_BYTES };
        descriptors[0] = e->bounce_memory.descriptor;
        *num_parts = 1;
        return RF_OK;
    }
    uint32_t n = 0;
    if (merged && e->bounce_memory.registration) { /* header and data in one range of known memory */
        memcpy(peer->out, &peer->header, sizeof(peer->header));
        memcpy(peer->out + sizeof(peer->header), data, size);
        parts[n] = (struct iovec){ peer->out, sizeof(peer->header) + size };
        descriptors[n++] = e->bounce_memory.descriptor;
    } else {
        if (merged) {
            parts[n] = (struct iovec){ &peer->header, sizeof(peer->header) };
            descriptors[n++] = NULL;
        }
        parts[n] = (struct iovec){ data, size };
        descriptors[n++] = known;
    }
    *num_parts = n;
    return RF_OK;
}

/* Posts what chunk_prepare() made; kept in the chunk until the provider has room. */
rf_result rf_engine_post_sends(rf_engine *e, bool *progress)
{
    while (e->out_next.step < e->schedule.count && e->out_tail - e->out_head < RF_ENGINE_OUT) {
        const rf_collective_step *step = &e->schedule.items[e->out_next.step];
        rf_peer *peer = e->peers[step->to];
        const uint64_t offset = e->out_next.offset, count = chunk_count(e, offset, step->send_count);
        const bool merged = peer->out_merged && peer->out_state == RF_HEADER_WANTED;
        if (!merged && peer->out_state < RF_HEADER_POSTED) return RF_OK;
        if (!may_send(e, e->out_next.step, offset, count)) return RF_OK;
        rf_chunk *chunk = &e->out[e->out_tail % RF_ENGINE_OUT];
        if (chunk->num_parts == 0) {
            chunk->step = e->out_next.step;
            chunk->offset = offset;
            chunk->count = count;
            chunk->done = false;
            if (merged) peer->header.payload = (uint32_t)(count * e->wire_element);
            RF_TRY(chunk_prepare(e, peer, chunk, merged, chunk->parts, chunk->descriptors, &chunk->num_parts));
        }
        chunk->op.kind = RF_OP_OUT;
        chunk->posted_ns = rf_span_begin();
        chunk->op.index = (uint32_t)(e->out_tail % RF_ENGINE_OUT);
        const rf_result r =
            rf_fabric_send(e->fabric, peer->rank, chunk->parts, chunk->descriptors, chunk->num_parts, &chunk->op);
        if (r == RF_END) return RF_OK;
        RF_TRY(r);
        if (merged) {
            peer->out_state = RF_HEADER_DONE;
            e->headers_open--;
        }
        chunk->num_parts = 0;
        e->out_tail++;
        e->out_next.offset += count;
        next_send(e);
        *progress = true;
    }
    return RF_OK;
}

/* ---- in ---- */

rf_result rf_engine_post_receives(rf_engine *e, bool *progress)
{
    while (e->in_next.step < e->schedule.count && e->in_tail - e->in_head < RF_ENGINE_IN) {
        const rf_collective_step *step = &e->schedule.items[e->in_next.step];
        rf_peer *peer = e->peers[step->from];
        const uint64_t offset = e->in_next.offset, count = chunk_count(e, offset, step->receive_count);
        if (peer->in_state < RF_HEADER_POSTED) return RF_OK;
        rf_chunk *chunk = &e->in[e->in_tail % RF_ENGINE_IN];
        chunk->merged = peer->in_merged;
        chunk->lent = !chunk->merged && rf_fabric_lends(e->fabric, peer->rank);
        chunk->direct = !chunk->merged && !chunk->lent && !step->reduce && !e->call->wire && !peer->seal;
        if (chunk->direct && (peer->in_state != RF_HEADER_DONE || !may_land(e, e->in_next.step, offset, count)))
            return RF_OK;
        chunk->step = e->in_next.step;
        chunk->offset = offset;
        chunk->count = count;
        if (chunk->merged) {
            chunk->data = peer->in + sizeof(rf_call_header);
            chunk->done = peer->in_state == RF_HEADER_DONE;
            peer->in_merged = false; /* what follows comes by itself */
        } else {
            const size_t size = count * e->wire_element + (peer->seal ? RF_SEAL_BYTES : 0);
            uint8_t *to = chunk->direct ? place_address(e, step->receive, offset) : bounce_slot(e, false, e->in_tail);
            chunk->data = to;
            chunk->done = false;
            chunk->op.kind = RF_OP_IN;
            chunk->posted_ns = rf_span_begin();
            chunk->op.index = (uint32_t)(e->in_tail % RF_ENGINE_IN);
            void *known = chunk->direct ? space_descriptor(e, step->receive.space) : e->bounce_memory.descriptor;
            const rf_result r = chunk->lent ? rf_fabric_borrow(e->fabric, peer->rank, size, &chunk->op)
                                            : rf_fabric_receive(e->fabric, peer->rank, to, size, known, &chunk->op);
            if (r == RF_END) return RF_OK;
            RF_TRY(r);
        }
        e->in_tail++;
        e->in_next.offset += count;
        next_receive(e);
        *progress = true;
    }
    return RF_OK;
}

rf_result rf_engine_header_came(rf_engine *e, rf_peer *peer)
{
    size_t size = peer->in_op.size;
    if (peer->seal) {
        RF_TRY(rf_seal_open(peer->seal, peer->in, size, peer->in));
        size -= RF_SEAL_BYTES;
    }
    rf_call_header got;
    if (size < sizeof(got))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u sent %zu bytes that are not a call", peer->rank, size);
    memcpy(&got, peer->in, sizeof(got));
    RF_TRY(rf_engine_check_header(e, peer, &got));
    if (got.payload != size - sizeof(got) || got.payload != peer->in_payload)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u sent %zu bytes with its call instead of %u", peer->rank,
                       size - sizeof(got), peer->in_payload);
    peer->in_state = RF_HEADER_DONE;
    e->headers_open--;
    for (uint64_t i = e->in_head; i < e->in_tail; i++) {
        rf_chunk *chunk = &e->in[i % RF_ENGINE_IN];
        if (chunk->merged && e->schedule.items[chunk->step].from == (int32_t)peer->rank) chunk->done = true;
    }
    return RF_OK;
}

/* Brings what came into its place. */
static rf_result use_chunk(rf_engine *e, rf_chunk *chunk)
{
    const rf_collective_step *step = &e->schedule.items[chunk->step];
    rf_peer *peer = e->peers[step->from];
    const size_t size = chunk->count * e->wire_element;
    uint8_t *to = place_address(e, step->receive, chunk->offset);
    if (!chunk->merged) {
        const size_t expected = size + (peer->seal ? RF_SEAL_BYTES : 0);
        if (chunk->op.size != expected)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u sent %zu bytes instead of %zu", peer->rank, chunk->op.size,
                           expected);
        if (peer->seal) {
            uint8_t *plain = bounce_slot(e, false, e->in_head);
            RF_TRY(rf_seal_open(peer->seal, chunk->data, expected, plain));
            chunk->data = plain;
        }
    }
    if (chunk->direct) return RF_OK;
    const rf_dtype wire = e->call->wire;
    if (!step->reduce) {
        if (wire)
            rf_floats_widen((float *)(void *)to, chunk->data, wire, chunk->count);
        else
            memcpy(to, chunk->data, size);
        return RF_OK;
    }
    const uint8_t *local = place_address(e, step->local, chunk->offset);
    enum { BLOCK = 1024 };
    float wide[BLOCK];
    const uint64_t block = wire ? BLOCK : chunk->count;
    for (uint64_t i = 0; i < chunk->count; i += block) {
        const uint64_t n = chunk->count - i < block ? chunk->count - i : block;
        const void *came = chunk->data + i * e->wire_element;
        if (wire) {
            rf_floats_widen(wide, came, wire, n);
            came = wide;
        }
        const void *mine = local + i * e->element;
        e->reduce(to + i * e->element, step->received_left ? came : mine, step->received_left ? mine : came, n);
    }
    return RF_OK;
}

rf_result rf_engine_take_in(rf_engine *e, bool *progress)
{
    while (e->in_head != e->in_tail) {
        rf_chunk *chunk = &e->in[e->in_head % RF_ENGINE_IN];
        if (!chunk->done || e->peers[e->schedule.items[chunk->step].from]->in_state != RF_HEADER_DONE) return RF_OK;
        if (!chunk->direct && !may_write(e, chunk->step, chunk->offset, chunk->count)) return RF_OK;
        const rf_result r = use_chunk(e, chunk);
        if (chunk->lent) rf_fabric_return(e->fabric, &chunk->op);
        if (r < 0) {
            e->suspect = e->schedule.items[chunk->step].from;
            return r;
        }
        e->received = (rf_position){ chunk->step, chunk->offset + chunk->count };
        e->in_head++;
        *progress = true;
    }
    return RF_OK;
}
