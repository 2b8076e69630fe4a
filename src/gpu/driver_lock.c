/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "gpu/internal.h"

static pthread_mutex_t driver_mutex = PTHREAD_MUTEX_INITIALIZER;

void rf_gpu_lock_drivers(void)
{
    pthread_mutex_lock(&driver_mutex);
}

void rf_gpu_unlock_drivers(void)
{
    pthread_mutex_unlock(&driver_mutex);
}
