/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/shared/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t page_size(void)
{
    const long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

static size_t file_size(size_t page)
{
    return page + 2 * (size_t)RF_SHARED_RING;
}

static size_t mapped_size(size_t page)
{
    return page + 4 * (size_t)RF_SHARED_RING;
}

static rf_result fail_mapping(void)
{
    return RF_FAIL_ERRNO(RF_ERROR_OUT_OF_HOST_MEMORY, "%zu bytes of shared memory cannot be mapped",
                         mapped_size(page_size()));
}

static rf_result segment_map(rf_shared_segment *s, int fd)
{
    s->page = page_size();
    uint8_t *base = mmap(NULL, mapped_size(s->page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return fail_mapping();
    s->head = (rf_shared_head *)(void *)base;
    uint8_t *at = base;
    for (int i = 0; i < 5; i++) {
        const size_t size = i == 0 ? s->page : (size_t)RF_SHARED_RING;
        const size_t offset = i == 0 ? 0 : s->page + (size_t)((i - 1) / 2) * (size_t)RF_SHARED_RING;
        if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED) {
            const rf_result r = fail_mapping();
            rf_shared_segment_close(s);
            return r;
        }
        if (i == 1 || i == 3) s->data[i / 2] = at;
        at += size;
    }
    return RF_OK;
}

rf_result rf_shared_segment_create(rf_shared_segment *out, int *fd)
{
    *out = (rf_shared_segment){ 0 };
    *fd = memfd_create("ringfire", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) return RF_FAIL_ERRNO(RF_ERROR_UNSUPPORTED, "no memfd");
    rf_result r = RF_OK;
    if (ftruncate(*fd, (off_t)file_size(page_size())) != 0 || fcntl(*fd, F_ADD_SEALS, SEALS) != 0)
        r = RF_FAIL_ERRNO(RF_ERROR_UNSUPPORTED, "a memfd cannot be given its size and be sealed");
    if (r == RF_OK) r = segment_map(out, *fd);
    if (r == RF_OK) return RF_OK;
    close(*fd);
    *fd = -1;
    return r;
}

rf_result rf_shared_segment_open(rf_shared_segment *out, int fd)
{
    *out = (rf_shared_segment){ 0 };
    struct stat st;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0 ||
        fstat(fd, &st) != 0 || st.st_size != (off_t)file_size(page_size()))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "what came as shared memory is not a sealed memfd of %zu bytes",
                       file_size(page_size()));
    return segment_map(out, fd);
}

void rf_shared_segment_close(rf_shared_segment *s)
{
    if (s->head) munmap(s->head, mapped_size(s->page));
    *s = (rf_shared_segment){ 0 };
}

rf_ring rf_shared_segment_ring(const rf_shared_segment *s, uint32_t side, bool out)
{
    const uint32_t ring = out ? side : 1 - side;
    return (rf_ring){ .counts = &s->head->rings[ring], .data = s->data[ring], .capacity = RF_SHARED_RING };
}
