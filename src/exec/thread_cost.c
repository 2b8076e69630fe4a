/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/thread_cost.h"

/* They are lavapipe's (Mesa 22.3) on two processors. A step of nine dispatches with hardly any work took 75 us without
 * threads, 121 us with two, 227 us with eight and 294 us with sixteen. With 32 rows and 64 units it took 251, 271, 454
 * and 671 us. */
#define DISPATCH_SECONDS 7.5e-6 /* without threads: to submit and begin it */
#define WAKE_SECONDS 1.8e-6     /* for each thread */

double rf_threads_slowdown(uint32_t num_dispatches, double seconds, uint32_t num_threads)
{
    const double alone = num_dispatches * DISPATCH_SECONDS + seconds;
    if (num_threads == 0 || !(alone > 0)) return 1;
    return (num_dispatches * (DISPATCH_SECONDS + WAKE_SECONDS * num_threads) + seconds / num_threads) / alone;
}
