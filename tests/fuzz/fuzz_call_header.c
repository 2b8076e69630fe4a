/* SPDX-License-Identifier: Apache-2.0 */
/* What another rank says of its collective call: the very call passes, whatever it is named, and anything else is
 * refused in one line. The input is laid over the header of this rank's call by XOR. */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "transport/comm_engine_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rf_engine engine;
    engine.header = (rf_call_header){ .magic = RF_CALL_MAGIC,
                                      .serial = 7,
                                      .count = 100,
                                      .chunk = 4096,
                                      .kind = RF_COLLECTIVE_ALL_REDUCE,
                                      .dtype = RF_F32,
                                      .wire = RF_BF16,
                                      .name = "gradients" };
    rf_peer peer = { .rank = 1 };
    rf_call_header got = engine.header;
    for (size_t i = 0; i < size && i < sizeof(got); i++) ((uint8_t *)&got)[i] ^= data[i];
    /* The bytes behind the name are zero in every header. */
    rf_call_header expected = engine.header;
    expected.payload = got.payload;
    memcpy(expected.name, got.name, sizeof(got.name));
    const bool same = memcmp(&got, &expected, sizeof(got)) == 0;
    const rf_result r = rf_engine_check_header(&engine, &peer, &got);
    PROMISE((r == RF_OK) == same);
    PROMISE(r == RF_OK || rf_error_message()[0]);
    return 0;
}
