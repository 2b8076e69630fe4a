/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that mesa-drm-shim lacks: a preloaded library in front of Intel's Vulkan driver that answers like the
 * kernel's i915 for a GPU that is not there, and computes nothing. INTEL_DEVICE_ID is the PCI id of the GPU
 * (hexadecimal), INTEL_LOCAL_GIB the size of its own memory (0: it shares the host's). libdrm's functions that the
 * driver calls are replaced whole; a buffer is a range of one file that only exists in memory, so that mapping one
 * needs nothing special. tests/fleet compiles it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <i915_drm.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#define GIB (1ull << 30)
#define MAX_BUFFERS (1u << 18)
/* As many execution units as the largest of these GPUs has, in a form that all of them take. */
enum { SLICES = 8, SUBSLICES = 4, UNITS = 16, UNIT_BYTES = 2 };

static char path[64]; /* of the file */
static uint64_t offsets[MAX_BUFFERS];
static atomic_uint next_id = 1;
static atomic_ullong next_offset = 1 << 20;

static uint64_t setting(const char *name, int base, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, base) : otherwise;
}

static uint64_t device_id(void)
{
    return setting("INTEL_DEVICE_ID", 16, 0x56a0);
}

/* ---- the device ---- */

static drmDevicePtr make_device(void)
{
    static drmPciBusInfo bus = { .bus = 3 };
    static drmPciDeviceInfo info;
    if (!path[0]) {
        const int file = memfd_create("i915", 0);
        if (file < 0 || ftruncate(file, 1ll << 40) < 0) return NULL;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    drmDevicePtr device = calloc(1, sizeof(*device));
    if (!device) return NULL;
    device->nodes = calloc(DRM_NODE_MAX, sizeof(char *));
    if (!device->nodes) {
        free(device);
        return NULL;
    }
    device->nodes[DRM_NODE_RENDER] = device->nodes[DRM_NODE_PRIMARY] = path;
    device->available_nodes = 1 << DRM_NODE_RENDER | 1 << DRM_NODE_PRIMARY;
    device->bustype = DRM_BUS_PCI;
    info = (drmPciDeviceInfo){ .vendor_id = 0x8086, .device_id = (uint16_t)device_id(), .revision_id = 8 };
    device->businfo.pci = &bus;
    device->deviceinfo.pci = &info;
    return device;
}

int drmGetDevices2(uint32_t flags, drmDevicePtr devices[], int max_devices)
{
    (void)flags;
    if (!devices || max_devices < 1) return 1;
    devices[0] = make_device();
    return devices[0] ? 1 : -ENOMEM;
}

int drmGetDevice2(int fd, uint32_t flags, drmDevicePtr *device)
{
    (void)fd;
    (void)flags;
    *device = make_device();
    return *device ? 0 : -ENOMEM;
}

void drmFreeDevice(drmDevicePtr *device)
{
    if (!*device) return;
    free((*device)->nodes);
    free(*device);
    *device = NULL;
}

void drmFreeDevices(drmDevicePtr devices[], int count)
{
    for (int i = 0; i < count; i++) drmFreeDevice(&devices[i]);
}

drmVersionPtr drmGetVersion(int fd)
{
    (void)fd;
    drmVersionPtr version = calloc(1, sizeof(*version));
    if (!version) return NULL;
    version->version_major = 1;
    version->version_minor = 6;
    version->name = strdup("i915");
    version->name_len = 4;
    version->date = strdup("20201103");
    version->desc = strdup("nothing");
    return version;
}

void drmFreeVersion(drmVersionPtr version)
{
    free(version->name);
    free(version->date);
    free(version->desc);
    free(version);
}

int drmGetCap(int fd, uint64_t capability, uint64_t *value)
{
    (void)fd;
    (void)capability;
    *value = 1;
    return 0;
}

/* ---- synchronisation: everything has happened ---- */

int drmSyncobjCreate(int fd, uint32_t flags, uint32_t *handle)
{
    (void)fd;
    (void)flags;
    *handle = atomic_fetch_add(&next_id, 1);
    return 0;
}

int drmSyncobjWait(int fd, uint32_t *handles, unsigned count, int64_t timeout, unsigned flags, uint32_t *first)
{
    (void)fd;
    (void)handles;
    (void)count;
    (void)timeout;
    (void)flags;
    if (first) *first = 0;
    return 0;
}

int drmSyncobjTimelineWait(int fd, uint32_t *handles, uint64_t *points, unsigned count, int64_t timeout, unsigned flags,
                           uint32_t *first)
{
    (void)points;
    return drmSyncobjWait(fd, handles, count, timeout, flags, first);
}

int drmSyncobjQuery2(int fd, uint32_t *handles, uint64_t *points, uint32_t count, uint32_t flags)
{
    (void)fd;
    (void)handles;
    (void)flags;
    for (uint32_t i = 0; i < count; i++) points[i] = INT64_MAX;
    return 0;
}

#define NOTHING(name, ...)                                                                                             \
    int name(__VA_ARGS__)                                                                                              \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(drmSyncobjDestroy, int fd, uint32_t handle)
NOTHING(drmSyncobjReset, int fd, const uint32_t *handles, uint32_t count)
NOTHING(drmSyncobjSignal, int fd, const uint32_t *handles, uint32_t count)
NOTHING(drmSyncobjTimelineSignal, int fd, const uint32_t *handles, uint64_t *points, uint32_t count)
NOTHING(drmSyncobjTransfer, int fd, uint32_t to, uint64_t to_point, uint32_t from, uint64_t from_point, uint32_t flags)
NOTHING(drmSyncobjImportSyncFile, int fd, uint32_t handle, int file)

/* ---- i915 ---- */

static int parameter(const struct drm_i915_getparam *p)
{
    switch (p->param) {
    case I915_PARAM_CHIPSET_ID: *p->value = (int)device_id(); break;
    case I915_PARAM_REVISION: *p->value = 8; break;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY: *p->value = 19200000; break;
    case I915_PARAM_MMAP_GTT_VERSION: *p->value = 4; break;
    case I915_PARAM_CMD_PARSER_VERSION: *p->value = 10; break;
    case I915_PARAM_SLICE_MASK: *p->value = (1 << SLICES) - 1; break;
    case I915_PARAM_SUBSLICE_MASK: *p->value = (1 << SUBSLICES) - 1; break;
    case I915_PARAM_EU_TOTAL: *p->value = SLICES * SUBSLICES * UNITS; break;
    case I915_PARAM_SUBSLICE_TOTAL: *p->value = SLICES * SUBSLICES; break;
    default: *p->value = 1; break; /* whether it can do something: yes */
    }
    return 0;
}

static void fill_topology(struct drm_i915_query_topology_info *t)
{
    t->max_slices = SLICES;
    t->max_subslices = SUBSLICES;
    t->max_eus_per_subslice = UNITS;
    t->subslice_offset = t->subslice_stride = 1;
    t->eu_offset = 1 + SLICES;
    t->eu_stride = UNIT_BYTES;
    t->data[0] = (1 << SLICES) - 1;
    memset(t->data + 1, (1 << SUBSLICES) - 1, SLICES);
    memset(t->data + t->eu_offset, 0xff, SLICES * SUBSLICES * UNIT_BYTES);
}

static void fill_engines(struct drm_i915_query_engine_info *e)
{
    static const uint16_t classes[] = { I915_ENGINE_CLASS_RENDER, I915_ENGINE_CLASS_COPY, 4 /* compute */ };
    e->num_engines = 3;
    for (int i = 0; i < 3; i++) e->engines[i].engine.engine_class = classes[i];
}

static void fill_regions(struct drm_i915_query_memory_regions *m, uint64_t local)
{
    m->num_regions = local > 0 ? 2 : 1;
    for (uint32_t i = 0; i < m->num_regions; i++) {
        struct drm_i915_memory_region_info *r = &m->regions[i];
        const uint64_t size = i == 0 ? 16 * GIB : local;
        r->region.memory_class = i == 0 ? I915_MEMORY_CLASS_SYSTEM : I915_MEMORY_CLASS_DEVICE;
        r->probed_size = r->unallocated_size = size;
        const uint64_t visible[2] = { size,
                                      size }; /* newer kernels: what the host sees of it, and of that what is free */
        memcpy(r->rsvd1, visible, sizeof(visible));
    }
}

/* Asked for its size first, then for itself. */
static void query(struct drm_i915_query_item *item)
{
    const uint64_t local = setting("INTEL_LOCAL_GIB", 10, 0) * GIB;
    void *data = (void *)(uintptr_t)item->data_ptr;
    size_t size;
    switch (item->query_id) {
    case DRM_I915_QUERY_TOPOLOGY_INFO:
    case 6: /* of one engine: DRM_I915_QUERY_GEOMETRY_SUBSLICES */
        size = sizeof(struct drm_i915_query_topology_info) + 1 + SLICES + SLICES * SUBSLICES * UNIT_BYTES;
        break;
    case DRM_I915_QUERY_ENGINE_INFO:
        size = sizeof(struct drm_i915_query_engine_info) + 3 * sizeof(struct drm_i915_engine_info);
        break;
    case DRM_I915_QUERY_MEMORY_REGIONS:
        size = sizeof(struct drm_i915_query_memory_regions) + 2 * sizeof(struct drm_i915_memory_region_info);
        break;
    default: item->length = -EINVAL; return;
    }
    if (item->length != 0) {
        memset(data, 0, size);
        if (item->query_id == DRM_I915_QUERY_ENGINE_INFO)
            fill_engines(data);
        else if (item->query_id == DRM_I915_QUERY_MEMORY_REGIONS)
            fill_regions(data, local);
        else
            fill_topology(data);
    }
    item->length = (int32_t)size;
}

static uint32_t new_buffer(uint64_t size)
{
    const uint32_t id = atomic_fetch_add(&next_id, 1);
    const uint64_t whole = (size + 0xffff) & ~0xffffull;
    offsets[id % MAX_BUFFERS] = atomic_fetch_add(&next_offset, whole);
    return id;
}

static int answer(unsigned command, void *argument)
{
    switch (command) {
    case DRM_I915_GETPARAM: return parameter(argument);
    case DRM_I915_QUERY: {
        const struct drm_i915_query *q = argument;
        struct drm_i915_query_item *items = (void *)(uintptr_t)q->items_ptr;
        for (uint32_t i = 0; i < q->num_items; i++) query(&items[i]);
        return 0;
    }
    case DRM_I915_GEM_GET_APERTURE: {
        struct drm_i915_gem_get_aperture *a = argument;
        a->aper_size = a->aper_available_size = 4 * GIB;
        return 0;
    }
    case DRM_I915_GEM_CREATE:
    case DRM_I915_GEM_CREATE_EXT: { /* which begins alike */
        struct drm_i915_gem_create *c = argument;
        c->handle = new_buffer(c->size);
        return 0;
    }
    case DRM_I915_GEM_USERPTR: {
        struct drm_i915_gem_userptr *u = argument;
        u->handle = new_buffer(u->user_size);
        return 0;
    }
    case DRM_I915_GEM_MMAP_GTT: { /* and MMAP_OFFSET, which begins alike */
        struct drm_i915_gem_mmap_gtt *m = argument;
        m->offset = offsets[m->handle % MAX_BUFFERS];
        return 0;
    }
    case DRM_I915_GEM_CONTEXT_CREATE:
        ((struct drm_i915_gem_context_create *)argument)->ctx_id = atomic_fetch_add(&next_id, 1);
        return 0;
    case DRM_I915_GEM_CONTEXT_GETPARAM: {
        struct drm_i915_gem_context_param *p = argument;
        p->value = p->param == I915_CONTEXT_PARAM_GTT_SIZE ? 1ull << 48 : 0;
        if (p->param == I915_CONTEXT_PARAM_VM) p->value = atomic_fetch_add(&next_id, 1);
        return 0;
    }
    case DRM_I915_GEM_VM_CREATE:
        ((struct drm_i915_gem_vm_control *)argument)->vm_id = atomic_fetch_add(&next_id, 1);
        return 0;
    case DRM_I915_GEM_BUSY: ((struct drm_i915_gem_busy *)argument)->busy = 0; return 0;
    case DRM_I915_REG_READ: { /* the clock */
        static atomic_ullong ticks;
        ((struct drm_i915_reg_read *)argument)->val = atomic_fetch_add(&ticks, 1000);
        return 0;
    }
    case DRM_I915_PERF_OPEN: /* would give a file, which the driver closes */
    case DRM_I915_PERF_ADD_CONFIG: errno = ENODEV; return -1;
    default: return 0; /* done */
    }
}

int ioctl(int fd, unsigned long request, ...)
{
    static int (*next)(int, unsigned long, ...);
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (request == DRM_IOCTL_PRIME_HANDLE_TO_FD) { /* would give a file, which the driver closes */
        errno = EINVAL;
        return -1;
    }
    if (_IOC_TYPE(request) == DRM_IOCTL_BASE)
        return _IOC_NR(request) < DRM_COMMAND_BASE ? 0 : answer(_IOC_NR(request) - DRM_COMMAND_BASE, argument);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
    return next(fd, request, argument);
}

int drmIoctl(int fd, unsigned long request, void *argument)
{
    return ioctl(fd, request, argument);
}
