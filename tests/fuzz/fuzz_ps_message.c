/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of parameter-server clusters and the optimizer that one of them carries. The first byte chooses the type, 0
 * the optimizer. What is accepted must keep the decoder's promises, and encoding it again must give what decodes to the
 * same.
 */
#include <string.h>

#include "fuzz.h"
#include "replica/ps_message.h"
#include "replica/ps_optimizer.h"

static void optimizer(const uint8_t *data, size_t size)
{
    rf_optimizer_params one, two;
    rf_schedule schedule, other;
    uint8_t again[RF_PS_OPTIMIZER_BYTES], more[RF_PS_OPTIMIZER_BYTES];
    size_t again_size, more_size;
    if (rf_ps_optimizer_decode(data, size, &one, &schedule) < 0) return;
    PROMISE(!one.schedule || (one.schedule == &schedule && schedule.num_boundaries <= 15));
    rf_ps_optimizer_encode(&one, again, &again_size);
    PROMISE(again_size == size);
    PROMISE(rf_ps_optimizer_decode(again, again_size, &two, &other) == RF_OK);
    rf_ps_optimizer_encode(&two, more, &more_size);
    PROMISE(more_size == again_size && memcmp(again, more, again_size) == 0);
}

static void message(uint16_t type, const uint8_t *data, size_t size)
{
    rf_ps_message one, two;
    uint8_t head[RF_PS_HEAD_MAX];
    size_t head_size;
    if (rf_ps_message_decode(type, data, size, &one) < 0) return;
    PROMISE(one.type == type && strlen(one.text) < sizeof(one.text));
    PROMISE(one.payload_size <= size);
    PROMISE(rf_ps_message_encode(&one, head, &head_size) == RF_OK && head_size <= sizeof(head));
    PROMISE(rf_ps_message_decode(type, head, head_size, &two) == RF_OK);
    PROMISE(two.payload_size == 0 && strcmp(one.text, two.text) == 0 && two.id == one.id && two.version == one.version);
    PROMISE(one.result == two.result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const uint16_t type = data[0] % (RF_PS_TYPE_COUNT + 1);
    /* The bytes begin where nothing is aligned. */
    if (type == 0)
        optimizer(data + 1, size - 1);
    else
        message(type, data + 1, size - 1);
    return 0;
}
