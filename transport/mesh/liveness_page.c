/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/liveness_page.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t liveness_size(uint32_t world)
{
    return world * sizeof(rf_liveness_line);
}

static rf_result liveness_map(uint32_t world, int fd, rf_liveness_page *out)
{
    void *memory = mmap(NULL, liveness_size(world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return RF_FAIL_ERRNO(RF_ERROR_OUT_OF_HOST_MEMORY, "shared signs of life: not mapped");
    *out = (rf_liveness_page){ .lines = memory, .world = world };
    return RF_OK;
}

rf_result rf_liveness_create(uint32_t world, rf_liveness_page *out, int *fd)
{
    *out = (rf_liveness_page){ 0 };
    *fd = memfd_create("ringfire-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) return RF_FAIL_ERRNO(RF_ERROR_UNSUPPORTED, "shared signs of life: no memfd");
    rf_result r = RF_OK;
    if (ftruncate(*fd, (off_t)liveness_size(world)) != 0 || fcntl(*fd, F_ADD_SEALS, SEALS) != 0)
        r = RF_FAIL_ERRNO(RF_ERROR_UNSUPPORTED, "shared signs of life: a memfd cannot be given its size and be sealed");
    if (r == RF_OK) r = liveness_map(world, *fd, out);
    if (r == RF_OK) return RF_OK;
    close(*fd);
    *fd = -1;
    return r;
}

rf_result rf_liveness_open(uint32_t world, int fd, rf_liveness_page *out)
{
    *out = (rf_liveness_page){ 0 };
    struct stat st;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0 ||
        fstat(fd, &st) != 0 || st.st_size != (off_t)liveness_size(world))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "what came for signs of life is not a sealed memfd of %zu bytes",
                       liveness_size(world));
    return liveness_map(world, fd, out);
}

void rf_liveness_close(rf_liveness_page *liveness)
{
    if (liveness->lines) munmap(liveness->lines, liveness_size(liveness->world));
    *liveness = (rf_liveness_page){ 0 };
}
