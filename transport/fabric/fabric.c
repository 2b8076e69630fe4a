/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/fabric/fabric.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/fabric/internal.h"

static rf_result fabric_check(const rf_fabric *f, int error, const char *what)
{
    if (error == 0) return RF_OK;
    return RF_FAIL_FABRIC(RF_ERROR_IO, error, "libfabric provider %s: %s: %s", f->provider, what,
                          rf_fi.strerror(-error));
}

static rf_result open_domain(rf_fabric *f, uint32_t num_links)
{
    RF_TRY(fabric_check(f, rf_fi.fabric(f->info->fabric_attr, &f->fabric, NULL), "no fabric"));
    struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
    RF_TRY(fabric_check(f, fi_eq_open(f->fabric, &eq, &f->events, NULL), "no event queue"));
    RF_TRY(fabric_check(f, fi_domain(f->fabric, f->info, &f->domain, NULL), "no domain"));
    struct fi_cq_attr cq = { .size = (size_t)(num_links > 0 ? num_links : 1) * f->depth * 2,
                             .format = FI_CQ_FORMAT_MSG,
                             .wait_obj = FI_WAIT_FD };
    RF_TRY(fabric_check(f, fi_cq_open(f->domain, &cq, &f->completions, NULL), "no completion queue"));
    RF_TRY(fabric_check(f, fi_control(&f->completions->fid, FI_GETWAIT, &f->wait_fd),
                        "a completion queue that cannot be waited for"));
    if (f->info->domain_attr->mr_mode & FI_MR_LOCAL) f->register_memory = true;
    return RF_OK;
}

static rf_result listen_here(rf_fabric *f, rf_fabric_card *card)
{
    RF_TRY(fabric_check(f, fi_passive_ep(f->fabric, f->info, &f->listener, NULL), "no passive endpoint"));
    RF_TRY(fabric_check(f, fi_pep_bind(f->listener, &f->events->fid, 0), "passive endpoint without events"));
    RF_TRY(fabric_check(f, fi_listen(f->listener), "cannot listen"));
    size_t size = sizeof(card->address);
    RF_TRY(fabric_check(f, fi_getname(&f->listener->fid, card->address, &size), "an address that is too long"));
    card->address_size = (uint32_t)size;
    if (RAND_bytes(card->nonce, sizeof(card->nonce)) != 1)
        return RF_FAIL(RF_ERROR_IO, "the operating system provides no random numbers for a nonce");
    return RF_OK;
}

static rf_result exchange_cards(rf_fabric *f, const rf_fabric_card *mine)
{
    size_t *sizes = RF_NEW_ARRAY(size_t, f->world_size);
    if (!sizes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_mesh_exchange(f->mesh, mine, sizeof(*mine), f->cards, sizeof(*f->cards), sizes);
    for (uint32_t i = 0; i < f->world_size && r == RF_OK; i++)
        r = rf_fabric_check_card(&f->cards[i], sizes[i], f->info->addr_format, i);
    rf_free(sizes);
    return r;
}

/* Opens the network: libfabric, and the connections to all ranks that do not share memory with this one. */
static rf_result open_network(rf_fabric *f, const bool *peers)
{
    uint32_t num_links = 0;
    for (uint32_t i = 0; i < f->world_size; i++) {
        if (!peers[i] || i == f->rank || rf_shared_has(f->shared, i)) continue;
        for (int d = 0; d < RF_DIRECTION_COUNT; d++) f->links[d][i].state = RF_LINK_WANTED;
        num_links++;
    }
    RF_TRY(rf_fabric_choose(f));
    RF_TRY(open_domain(f, num_links));
    rf_fabric_card mine = { 0 };
    RF_TRY(listen_here(f, &mine));
    RF_TRY(exchange_cards(f, &mine));
    RF_TRY(rf_fabric_connect(f, rf_now_ns() + f->job->bootstrap_timeout_ns));
    fi_close(&f->listener->fid);
    f->listener = NULL;
    return RF_OK;
}

static rf_result fabric_build(rf_fabric *f, const rf_fabric_params *params)
{
    for (int d = 0; d < RF_DIRECTION_COUNT; d++)
        if (!(f->links[d] = RF_NEW_ARRAY(rf_link, f->world_size))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    f->cards = RF_NEW_ARRAY(rf_fabric_card, f->world_size);
    if (!f->cards) return RF_ERROR_OUT_OF_HOST_MEMORY;
    f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->wake_fd < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "data connections: no event descriptor");
    RF_TRY(rf_shared_create(
        &(rf_shared_params){ .job = params->job, .mesh = params->mesh, .peers = params->peers, .depth = params->depth },
        &f->shared));
    const uint32_t pairs = rf_shared_pairs(f->shared);
    f->sleepers = RF_NEW_ARRAY(struct pollfd, pairs + 2);
    if (!f->sleepers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (!rf_shared_has_all(f->shared)) RF_TRY(open_network(f, params->peers));
    snprintf(f->means, sizeof(f->means), "%s%s%s", pairs > 0 ? "shared memory" : "",
             pairs > 0 && f->provider[0] ? ", " : "", f->provider);
    return RF_OK;
}

rf_result rf_fabric_create(const rf_fabric_params *params, rf_fabric **out)
{
    *out = NULL;
    rf_fabric *f = RF_NEW(rf_fabric);
    if (!f) return RF_ERROR_OUT_OF_HOST_MEMORY;
    f->job = params->job;
    f->mesh = params->mesh;
    f->rank = rf_mesh_rank(params->mesh);
    f->world_size = rf_mesh_world_size(params->mesh);
    f->depth = params->depth;
    f->register_memory = params->register_memory;
    f->wake_fd = f->wait_fd = -1;
    const rf_result r = fabric_build(f, params);
    f->job = NULL;
    if (r < 0)
        rf_fabric_destroy(&f);
    else
        *out = f;
    return r;
}

void rf_fabric_close(rf_fabric *f)
{
    for (int d = 0; d < RF_DIRECTION_COUNT; d++)
        for (uint32_t i = 0; f->links[d] && i < f->world_size; i++) {
            rf_link *link = &f->links[d][i];
            if (link->endpoint) {
                if (link->state == RF_LINK_UP) fi_shutdown(link->endpoint, 0);
                fi_close(&link->endpoint->fid);
            }
            link->endpoint = NULL;
            link->state = RF_LINK_CLOSED;
        }
    if (f->shared) rf_shared_close(f->shared);
}

void rf_fabric_destroy(rf_fabric **fabric)
{
    rf_fabric *f = *fabric;
    if (!f) return;
    rf_fabric_close(f);
    if (f->listener) fi_close(&f->listener->fid);
    if (f->completions) fi_close(&f->completions->fid);
    if (f->domain) fi_close(&f->domain->fid);
    if (f->events) fi_close(&f->events->fid);
    if (f->fabric) fi_close(&f->fabric->fid);
    if (f->info) rf_fi.freeinfo(f->info);
    if (f->wake_fd >= 0) close(f->wake_fd);
    for (int d = 0; d < RF_DIRECTION_COUNT; d++) rf_free(f->links[d]);
    rf_free(f->cards);
    rf_free(f->sleepers);
    rf_shared_destroy(&f->shared);
    rf_free(f);
    *fabric = NULL;
}

const char *rf_fabric_provider(const rf_fabric *fabric)
{
    return fabric->means;
}

bool rf_fabric_is_shared(const rf_fabric *fabric)
{
    return rf_shared_has_all(fabric->shared);
}

bool rf_fabric_lends(const rf_fabric *fabric, uint32_t peer)
{
    return rf_shared_has(fabric->shared, peer);
}

rf_result rf_fabric_register(rf_fabric *f, const void *data, size_t size, rf_fabric_memory *out)
{
    *out = (rf_fabric_memory){ 0 };
    if (!f->register_memory || !f->domain || size == 0) return RF_OK;
    const int error =
        fi_mr_reg(f->domain, data, size, FI_SEND | FI_RECV, 0, f->next_key++, 0, &out->registration, NULL);
    if (error != 0)
        return RF_FAIL_FABRIC(RF_ERROR_IO, error,
                              "libfabric provider %s: %zu bytes cannot be registered (%s); see ulimit -l", f->provider,
                              size, rf_fi.strerror(-error));
    out->descriptor = fi_mr_desc(out->registration);
    return RF_OK;
}

void rf_fabric_unregister(rf_fabric_memory *memory)
{
    if (memory->registration) fi_close(&memory->registration->fid);
    *memory = (rf_fabric_memory){ 0 };
}

static rf_result check_posted(uint32_t peer, ssize_t error)
{
    if (error == 0) return RF_OK;
    if (error == -FI_EAGAIN) return RF_END;
    return RF_FAIL_FABRIC(RF_ERROR_PEER_LOST, error, "data connection with rank %u: %s", peer,
                          rf_fi.strerror((int)-error));
}

/* The operation that is around its part for shared memory. */
static rf_fabric_op *op_around(rf_shared_op *shared)
{
    return (rf_fabric_op *)(void *)((char *)shared - offsetof(rf_fabric_op, shared));
}

static void op_begin(rf_fabric_op *op, uint32_t peer)
{
    op->peer = peer;
    op->error = 0;
    op->lent = NULL;
    op->lied = false;
}

rf_result rf_fabric_send(rf_fabric *f, uint32_t peer, const struct iovec *parts, void **descriptors, uint32_t num_parts,
                         rf_fabric_op *op)
{
    op_begin(op, peer);
    if (rf_shared_has(f->shared, peer)) return rf_shared_send(f->shared, peer, parts, num_parts, &op->shared);
    struct fid_ep *ep = f->links[RF_DIRECTION_OUT][peer].endpoint;
    if (!ep) return RF_FAIL(RF_ERROR_PEER_LOST, "data connection with rank %u: there is none", peer);
    return check_posted(peer, num_parts == 1
                                  ? fi_send(ep, parts->iov_base, parts->iov_len, descriptors[0], 0, &op->context)
                                  : fi_sendv(ep, parts, descriptors, num_parts, 0, &op->context));
}

rf_result rf_fabric_receive(rf_fabric *f, uint32_t peer, void *data, size_t size, void *descriptor, rf_fabric_op *op)
{
    op_begin(op, peer);
    if (rf_shared_has(f->shared, peer)) return rf_shared_receive(f->shared, peer, data, size, &op->shared);
    struct fid_ep *ep = f->links[RF_DIRECTION_IN][peer].endpoint;
    if (!ep) return RF_FAIL(RF_ERROR_PEER_LOST, "data connection with rank %u: there is none", peer);
    return check_posted(peer, fi_recv(ep, data, size, descriptor, 0, &op->context));
}

rf_result rf_fabric_borrow(rf_fabric *f, uint32_t peer, size_t size, rf_fabric_op *op)
{
    op_begin(op, peer);
    return rf_shared_receive(f->shared, peer, NULL, size, &op->shared);
}

void rf_fabric_return(rf_fabric *f, rf_fabric_op *op)
{
    if (op->lent) rf_shared_return(f->shared, &op->shared);
    op->lent = NULL;
}

static void poll_shared(rf_fabric *f, rf_fabric_op **done, uint32_t max, uint32_t *count)
{
    rf_shared_op *shared[16];
    *count = rf_shared_poll(f->shared, shared, max < 16 ? max : 16);
    for (uint32_t i = 0; i < *count; i++) {
        rf_fabric_op *op = done[i] = op_around(shared[i]);
        op->size = op->shared.size;
        op->error = op->shared.error;
        op->lent = op->shared.lent;
        op->lied = op->shared.lied;
        if (op->error) memcpy(op->detail, op->shared.detail, sizeof(op->detail));
    }
}

static rf_result read_error(rf_fabric *f, rf_fabric_op **done, uint32_t *count)
{
    struct fi_cq_err_entry error = { 0 };
    const ssize_t n = fi_cq_readerr(f->completions, &error, 0);
    if (n == -FI_EAGAIN) return RF_OK;
    if (n < 0 || !error.op_context)
        return RF_FAIL_FABRIC(RF_ERROR_IO, n, "libfabric provider %s: completion queue: %s", f->provider,
                              rf_fi.strerror(n < 0 ? (int)-n : error.err));
    rf_fabric_op *op = error.op_context;
    op->error = error.err ? error.err : FI_EIO;
    snprintf(op->detail, sizeof(op->detail), "%s", rf_fi.strerror(op->error));
    done[(*count)++] = op;
    return RF_OK;
}

rf_result rf_fabric_poll(rf_fabric *f, rf_fabric_op **done, uint32_t max, uint32_t *count)
{
    struct fi_cq_msg_entry entries[16];
    poll_shared(f, done, max, count);
    max -= *count;
    if (!f->completions || max == 0) return RF_OK;
    const ssize_t n = fi_cq_read(f->completions, entries, max < 16 ? max : 16);
    if (n == -FI_EAGAIN || n == -FI_EINTR) return RF_OK;
    if (n == -FI_EAVAIL) return read_error(f, done, count);
    if (n < 0)
        return RF_FAIL_FABRIC(RF_ERROR_IO, n, "libfabric provider %s: completion queue: %s", f->provider,
                              rf_fi.strerror((int)-n));
    for (ssize_t i = 0; i < n; i++) {
        rf_fabric_op *op = entries[i].op_context;
        op->size = entries[i].len;
        op->error = 0;
        done[(*count)++] = op;
    }
    return RF_OK;
}

/* poll() on everything that may end a sleep. */
static rf_result sleep_until_news(rf_fabric *f, uint32_t num_shared, uint64_t timeout_ns)
{
    uint32_t count = num_shared;
    f->sleepers[count++] = (struct pollfd){ f->wake_fd, POLLIN, 0 };
    if (f->completions) {
        struct fid *fid = &f->completions->fid;
        const int ready = fi_trywait(f->fabric, &fid, 1);
        if (ready == -FI_EAGAIN) return RF_OK;
        if (ready != 0) return fabric_check(f, ready, "cannot wait");
        f->sleepers[count++] = (struct pollfd){ f->wait_fd, POLLIN, 0 };
    }
    const int n = poll(f->sleepers, count, (int)(timeout_ns / 1000000) + 1);
    if (n >= 0) return RF_OK;
    for (uint32_t i = 0; i < num_shared; i++) f->sleepers[i].revents = 0;
    return errno == EINTR ? RF_OK : RF_FAIL_ERRNO(RF_ERROR_IO, "waiting for data");
}

rf_result rf_fabric_wait(rf_fabric *f, uint64_t timeout_ns)
{
    if (rf_shared_spin(f->shared)) return RF_OK;
    uint32_t num_shared;
    rf_result r = RF_OK;
    if (rf_shared_lie_down(f->shared, f->sleepers, &num_shared)) r = sleep_until_news(f, num_shared, timeout_ns);
    rf_shared_get_up(f->shared, f->sleepers, num_shared);
    return r;
}

void rf_fabric_wake(rf_fabric *f)
{
    const uint64_t one = 1;
    /* Only a counter that is full already refuses, and then the sleeper wakes as well. */
    const ssize_t unused = write(f->wake_fd, &one, sizeof(one));
    (void)unused;
}
