/* SPDX-License-Identifier: Apache-2.0 */
/* How both sides of the rendezvous send, and how connections end. */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/mesh/rendezvous_internal.h"

uint64_t rf_bootstrap_left(const rf_bootstrap *b)
{
    const uint64_t now = rf_now_ns();
    return now < b->deadline ? b->deadline - now : 0;
}

rf_result rf_bootstrap_send(const rf_bootstrap *b, rf_channel *channel, rf_mesh_frame type, const void *body,
                            size_t size)
{
    const rf_bytes part = { body, size };
    return rf_channel_send(channel, (uint16_t)type, &part, size ? 1 : 0, rf_bootstrap_left(b));
}

void rf_bootstrap_send_failure(rf_channel *channel, uint32_t culprit, rf_result result)
{
    rf_mesh_failure failure = { .culprit = culprit, .result = result };
    snprintf(failure.reason, sizeof(failure.reason), "%s", rf_error_message());
    uint8_t data[RF_MESH_FAILURE_MAX];
    const rf_bytes part = { data, rf_mesh_encode_failure(&failure, data) };
    rf_error_record record;
    rf_error_save(&record);
    /* Also after the deadline: small enough to fit into the socket's buffer. */
    if (rf_channel_send(channel, RF_MESH_FAILED, &part, 1, RF_LINGER_NS) < 0) rf_error_restore(&record);
}

void rf_channels_linger(rf_channel *const *channels, uint32_t count, uint64_t timeout_ns)
{
    uint32_t open = 0;
    struct pollfd *fds = RF_NEW_ARRAY(struct pollfd, count ? count : 1);
    if (!fds) return; /* the connections then just close */
    for (uint32_t r = 0; r < count; r++) {
        fds[r].fd = channels[r] ? rf_channel_fd(channels[r]) : -1;
        fds[r].events = POLLIN;
        if (fds[r].fd < 0) continue;
        if (shutdown(fds[r].fd, SHUT_WR) != 0) fds[r].fd = -1;
        open += fds[r].fd >= 0;
    }
    const uint64_t end = rf_now_ns() + timeout_ns;
    for (uint64_t now = rf_now_ns(); open && now < end; now = rf_now_ns()) {
        if (poll(fds, count, (int)((end - now) / 1000000 + 1)) <= 0) continue;
        for (uint32_t r = 0; r < count; r++) {
            char waste[4096];
            if (fds[r].fd < 0 || !fds[r].revents) continue;
            if (recv(fds[r].fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) continue;
            fds[r].fd = -1;
            open--;
        }
    }
    rf_free(fds);
}
