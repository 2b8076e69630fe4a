/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of what surrounds a device: the loader, drivers that are there or not, several devices, instances and threads
 * at once, and the validation layer. */
#include "gpu_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/internal.h"
#include "tests/room.h"

#define MAX_DEVICES 16
#define COUNT 256u

/* Stands before libc's for the whole program, so that a machine without Vulkan, or one whose loader has another name,
 * can be imitated. */
static bool hide_loader;
static const char *loader_alias; /* the only name the loader has */
static char asked_for[256];      /* names that were asked for meanwhile */
void *dlopen(const char *file, int flags);
void *dlopen(const char *file, int flags)
{
    static void *(*real)(const char *, int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    const bool loader = file && (strstr(file, "libvulkan.") || strstr(file, "MoltenVK") || strstr(file, "vulkan-1"));
    if (!loader || !(hide_loader || loader_alias)) return real(file, flags);
    const size_t used = strlen(asked_for);
    snprintf(asked_for + used, sizeof(asked_for) - used, "%s ", file);
    return loader_alias && strcmp(file, loader_alias) == 0 ? real("libvulkan.so.1", flags) : NULL;
}

/* Sets variables for one test; pass pairs. Undone by restore_environment. */
static char *saved[4][2];
static void change(int slot, const char *name, const char *value)
{
    const char *old = getenv(name);
    saved[slot][0] = strdup(name);
    saved[slot][1] = old ? strdup(old) : NULL;
    setenv(name, value, 1);
}

static int restore_environment(void **state)
{
    (void)state;
    hide_loader = false;
    loader_alias = NULL;
    asked_for[0] = '\0';
    for (int i = 3; i >= 0; i--) { /* a variable may have been changed more than once */
        if (!saved[i][0]) continue;
        if (saved[i][1])
            setenv(saved[i][0], saved[i][1], 1);
        else
            unsetenv(saved[i][0]);
        free(saved[i][0]);
        free(saved[i][1]);
        saved[i][0] = saved[i][1] = NULL;
    }
    return 0;
}

static bool has_driver(const char *manifest)
{
    const char *list = getenv("VK_DRIVER_FILES");
    return list && strstr(list, manifest);
}

static uint32_t list_devices(rf_gpu *gpu, rf_device_info *infos)
{
    uint32_t count = MAX_DEVICES;
    CHECK(rf_gpu_list(gpu, infos, &count));
    return count < MAX_DEVICES ? count : MAX_DEVICES;
}

/* ---- listing ---- */

static void test_list(void **state)
{
    (void)state;
    uint32_t count = 0, total;
    CHECK(rf_devices_list(NULL, &count));
    assert_true(count >= 1);
    rf_device_info infos[MAX_DEVICES];
    total = MAX_DEVICES;
    CHECK(rf_devices_list(infos, &total));
    assert_int_equal(total, count);
    bool lavapipe = false, swiftshader = false;
    for (uint32_t i = 0; i < count && i < MAX_DEVICES; i++) {
        const rf_device_info *d = &infos[i];
        assert_int_equal(d->index, i);
        assert_true(d->name[0] && d->vendor_name[0] && d->api_version != 0 && d->memory_size > 0);
        assert_true(d->usable == (d->unusable_reason[0] == '\0'));
        if (strcmp(d->driver_name, "llvmpipe") == 0) {
            lavapipe = true;
            assert_string_equal(d->vendor_name, "Mesa");
            assert_int_equal(d->type, RF_DEVICE_TYPE_CPU);
            assert_true(d->usable && d->has_external_memory_host);
        }
        if (strstr(d->driver_name, "SwiftShader")) {
            swiftshader = true;
            assert_string_equal(d->vendor_name, "Google");
            assert_int_equal(d->subgroup_size, 4);
        }
    }
    if (getenv("VK_DRIVER_FILES")) {
        assert_true(lavapipe == has_driver("lvp_icd"));
        assert_true(swiftshader == has_driver("swiftshader"));
    }

    /* Less room than devices: only that much is written, all are counted. */
    rf_device_info one[2];
    memset(one, 0x55, sizeof(one));
    total = 1;
    CHECK(rf_devices_list(one, &total));
    assert_int_equal(total, count);
    assert_int_equal(one[0].index, 0);
    assert_int_equal(one[1].index, 0x55555555);
    assert_int_equal(rf_devices_list(infos, NULL), RF_ERROR_INVALID_ARGUMENT);
}

static void test_index_out_of_range(void **state)
{
    (void)state;
    rf_gpu *gpu;
    CHECK(rf_gpu_create(NULL, &gpu));
    uint32_t count;
    CHECK(rf_gpu_list(gpu, NULL, &count));
    rf_gpu_device *device;
    assert_int_equal(rf_gpu_device_open(gpu, &(rf_gpu_device_params){ .index = count }, &device), RF_ERROR_NOT_FOUND);
    assert_null(device);
    char expected[32];
    snprintf(expected, sizeof(expected), "%s %u,", count == 1 ? "is" : "are", count);
    assert_non_null(strstr(rf_error_message(), expected));
    rf_gpu_destroy(&gpu);
    assert_null(gpu);
}

static void test_no_driver(void **state)
{
    (void)state;
    change(0, "VK_DRIVER_FILES", "/nonexistent/driver.json");
    change(1, "VK_ICD_FILENAMES", "/nonexistent/driver.json");
    uint32_t count = 0;
    assert_int_equal(rf_devices_list(NULL, &count), RF_ERROR_NOT_FOUND);
    assert_non_null(strstr(rf_error_message(), "mesa-vulkan-drivers"));
    assert_non_null(strstr(rf_error_message(), "VK_DRIVER_FILES"));
    rf_gpu *gpu;
    assert_int_equal(rf_gpu_create(NULL, &gpu), RF_ERROR_NOT_FOUND);
    assert_null(gpu);
}

/* A damaged manifest, of any driver, keeps some loaders from all of them. */
static void test_damaged_manifest(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } damaged[] = {
        { "{ \"ICD\": { \"library_path\": \"libvulkan", "of VK_DRIVER_FILES cannot be used: it is no JSON object" },
        { "{ \"ICD\": { \"library_path\": \"./none.so\", \"api_version\": \"1.3.0\" }, "
          "\"file_format_version\": \"1.0.0\" }",
          "none.so: cannot open shared object file" },
    };
    char path[] = "/tmp/ringfire-manifest-XXXXXX.json";
    const int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    change(0, "VK_DRIVER_FILES", path);
    change(1, "VK_ICD_FILENAMES", path);
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        const size_t length = strlen(damaged[i].text);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, damaged[i].text, length, 0), length);
        uint32_t count = 0;
        assert_true(rf_devices_list(NULL, &count) < 0);
        if (!strstr(rf_error_message(), path) || !strstr(rf_error_message(), damaged[i].says))
            fail_msg("%s", rf_error_message());
    }
    close(fd);
    unlink(path);
}

static void test_no_loader(void **state)
{
    (void)state;
    hide_loader = true;
    uint32_t count = 0;
    assert_int_equal(rf_devices_list(NULL, &count), RF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(rf_error_message(), "install libvulkan1"));
    assert_non_null(strstr(rf_error_message(), "tried libvulkan.so.1, libvulkan.so, libvulkan.1.dylib, "
                                               "libMoltenVK.dylib, vulkan-1.dll"));
    assert_string_equal(asked_for, "libvulkan.so.1 libvulkan.so libvulkan.1.dylib libMoltenVK.dylib vulkan-1.dll ");
}

static void test_loader_of_another_system(void **state)
{
    (void)state;
    uint32_t count = 0, found;
    CHECK(rf_devices_list(NULL, &count));
    loader_alias = "libMoltenVK.dylib";
    CHECK(rf_devices_list(NULL, &found));
    assert_int_equal(found, count);
    assert_string_equal(asked_for, "libvulkan.so.1 libvulkan.so libvulkan.1.dylib libMoltenVK.dylib ");
}

static void test_named_loader(void **state)
{
    (void)state;
    uint32_t count = 0, found;
    CHECK(rf_devices_list(NULL, &count));
    loader_alias = "/opt/libvulkan.our.so";
    change(0, "RINGFIRE_VULKAN_LIBRARY", loader_alias);
    CHECK(rf_devices_list(NULL, &found));
    assert_int_equal(found, count);
    assert_string_equal(asked_for, "/opt/libvulkan.our.so "); /* it alone */
    static const struct {
        const char *library, *message;
    } wrong[] = { { "/nonexistent/libvk.so", "'/nonexistent/libvk.so' of RINGFIRE_VULKAN_LIBRARY cannot be opened: " },
                  { "libm.so.6", "libm.so.6 has no vkGetInstanceProcAddr, so it is no Vulkan loader; correct or unset "
                                 "RINGFIRE_VULKAN_LIBRARY" } };
    for (int i = 0; i < 2; i++) {
        change(i + 1, "RINGFIRE_VULKAN_LIBRARY", wrong[i].library);
        assert_int_equal(rf_devices_list(NULL, &found), RF_ERROR_UNSUPPORTED);
        assert_non_null(strstr(rf_error_message(), wrong[i].message));
    }
}

static void test_no_validation_layer(void **state)
{
    (void)state;
    change(0, "VK_LAYER_PATH", "/nonexistent");
    rf_gpu *gpu;
    assert_int_equal(rf_gpu_create(&(rf_gpu_params){ .validation = true }, &gpu), RF_ERROR_UNSUPPORTED);
    assert_null(gpu);
    assert_non_null(strstr(rf_error_message(), "install vulkan-validationlayers"));
    change(1, "RINGFIRE_VALIDATION", "1");
    assert_int_equal(rf_gpu_create(NULL, &gpu), RF_ERROR_UNSUPPORTED);
    change(2, "RINGFIRE_VALIDATION", "0");
    CHECK(rf_gpu_create(NULL, &gpu));
    rf_gpu_destroy(&gpu);
}

/* ---- several at once ---- */

typedef struct job {
    rf_gpu_device *device;
    rf_gpu_buffer *x, *y;
    rf_gpu_recording *rec;
    float bias;
} job;

static void start(job *j, rf_gpu *gpu, uint32_t index, uint32_t bias)
{
    CHECK(rf_gpu_device_open(gpu, &(rf_gpu_device_params){ .index = index }, &j->device));
    CHECK(rf_gpu_buffer_create(j->device, RF_GPU_MEMORY_UPLOAD, COUNT * 4, "x", &j->x));
    CHECK(rf_gpu_buffer_create(j->device, RF_GPU_MEMORY_READBACK, COUNT * 4, "y", &j->y));
    float *x = rf_gpu_buffer_mapped(j->x);
    for (uint32_t i = 0; i < COUNT; i++) x[i] = (float)i;
    j->bias = (float)bias;
    rf_gpu_pipeline *pipeline;
    CHECK(rf_gpu_pipeline_get(j->device,
                              &(rf_gpu_pipeline_params){ .shader = &rf_shader_test_axpy,
                                                         .spec = &bias,
                                                         .num_spec = 1,
                                                         .num_bindings = 2,
                                                         .push_size = sizeof(rf_push_axpy) },
                              &pipeline));
    CHECK(rf_gpu_recording_begin(j->device, "job", &j->rec));
    CHECK(rf_gpu_record_dispatch(j->rec, pipeline,
                                 (rf_gpu_binding[]){ { j->x, 0, COUNT * 4, 0 }, { j->y, 0, COUNT * 4, 0 } },
                                 &(rf_push_axpy){ COUNT, 1.0f, 0 }, (uint32_t[]){ COUNT / 64, 1, 1 }, "axpy"));
    CHECK(rf_gpu_recording_end(j->rec));
}

static void expect(job *j, int rounds)
{
    const float *y = rf_gpu_buffer_mapped(j->y);
    for (uint32_t i = 0; i < COUNT; i++)
        if (y[i] != (float)rounds * ((float)i + j->bias)) fail_msg("y[%u] is %g", i, (double)y[i]);
}

static void finish(job *j)
{
    rf_gpu_recording_destroy(&j->rec);
    rf_gpu_buffer_destroy(&j->x);
    rf_gpu_buffer_destroy(&j->y);
    rf_gpu_device_close(&j->device);
}

/* Every device of the machine, each opened twice, all in flight together: vendors side by side in one instance. */
static void test_all_devices_twice(void **state)
{
    (void)state;
    rf_gpu *gpu;
    CHECK(rf_gpu_create(NULL, &gpu));
    rf_device_info infos[MAX_DEVICES];
    const uint32_t count = list_devices(gpu, infos);
    job jobs[2 * MAX_DEVICES] = { 0 };
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2 * count; i++) {
        if (!infos[i / 2].usable) continue;
        start(&jobs[n], gpu, i / 2, n);
        n++;
    }
    for (int round = 1; round <= 20; round++) {
        uint64_t tickets[2 * MAX_DEVICES];
        for (uint32_t i = 0; i < n; i++) CHECK(rf_gpu_submit(jobs[i].device, &jobs[i].rec, 1, &tickets[i]));
        for (uint32_t i = 0; i < n; i++) CHECK(rf_gpu_wait(jobs[i].device, tickets[i], RF_GPU_TIMEOUT_NS));
        for (uint32_t i = 0; i < n; i++) expect(&jobs[i], round);
    }
    /* One device's things are refused by another. */
    uint64_t ticket;
    if (n >= 2) assert_int_equal(rf_gpu_submit(jobs[0].device, &jobs[1].rec, 1, &ticket), RF_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < n; i++) finish(&jobs[i]);
    rf_gpu_destroy(&gpu);
}

typedef struct worker {
    pthread_t thread;
    uint32_t index;
    rf_result result;
    char message[256];
} worker;

/* cmocka's checks belong to the main thread; this one reports. */
static void *run_worker(void *argument)
{
    worker *w = argument;
    rf_gpu *gpu = NULL;
    rf_gpu_device *device = NULL;
    rf_gpu_buffer *buffer = NULL;
    rf_gpu_recording *rec = NULL;
    uint32_t word = 0, count = 0;
    rf_result r;
    RF_TRY_GOTO(rf_devices_list(NULL, &count), done);
    RF_TRY_GOTO(rf_gpu_create(NULL, &gpu), done);
    RF_TRY_GOTO(rf_gpu_device_open(gpu, &(rf_gpu_device_params){ .index = w->index }, &device), done);
    RF_TRY_GOTO(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, 1 << 16, "worker", &buffer), done);
    for (uint32_t round = 1; round <= 50; round++) {
        uint64_t ticket;
        RF_TRY_GOTO(rf_gpu_recording_begin(device, "worker", &rec), done);
        RF_TRY_GOTO(rf_gpu_record_fill(rec, buffer, 0, 1 << 16, round), done);
        RF_TRY_GOTO(rf_gpu_recording_end(rec), done);
        RF_TRY_GOTO(rf_gpu_submit(device, &rec, 1, &ticket), done);
        RF_TRY_GOTO(rf_gpu_buffer_read(buffer, (1 << 16) - 4, &word, 4), done);
        if (word != round) r = RF_FAIL(RF_ERROR_INTERNAL, "read %u in round %u", word, round);
        rf_gpu_recording_destroy(&rec);
        if (r < 0) goto done;
    }
done:
    w->result = r;
    if (r < 0) snprintf(w->message, sizeof(w->message), "%s", rf_error_message());
    rf_gpu_recording_destroy(&rec);
    rf_gpu_buffer_destroy(&buffer);
    rf_gpu_device_close(&device);
    rf_gpu_destroy(&gpu);
    return NULL;
}

static void test_instances_in_threads(void **state)
{
    (void)state;
    rf_device_info infos[MAX_DEVICES];
    uint32_t count = MAX_DEVICES, next = 0;
    CHECK(rf_devices_list(infos, &count));
    if (count > MAX_DEVICES) count = MAX_DEVICES;
    worker workers[4] = { 0 };
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t tried = 0; tried < count && !infos[next % count].usable; tried++) next++;
        workers[i].index = next++ % count;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) pthread_join(workers[i].thread, NULL);
    for (uint32_t i = 0; i < 4; i++)
        if (workers[i].result < 0) fail_msg("worker %u: %s", i, workers[i].message);
}

/* The entry points through which the loader looks at the list of all devices, or changes it, with a moment's rest in
 * each, so that two threads would meet there. */
static struct {
    rf_vk_instance instance;
    PFN_vkDestroyDevice destroy_device;
    PFN_vkSetDebugUtilsObjectNameEXT set_name;
    atomic_uint inside, met, named;
} lists;

static void list_enter(void)
{
    if (atomic_fetch_add(&lists.inside, 1) > 0) atomic_fetch_add(&lists.met, 1);
    usleep(20);
}

static void list_leave(void)
{
    atomic_fetch_sub(&lists.inside, 1);
}

static VKAPI_ATTR VkResult VKAPI_CALL watch_create(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                   const VkAllocationCallbacks *allocator, VkDevice *device)
{
    list_enter();
    const VkResult r = lists.instance.CreateDevice(physical, info, allocator, device);
    list_leave();
    return r;
}

static VKAPI_ATTR void VKAPI_CALL watch_destroy(VkDevice device, const VkAllocationCallbacks *allocator)
{
    list_enter();
    lists.destroy_device(device, allocator);
    list_leave();
}

static VKAPI_ATTR void VKAPI_CALL watch_destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    list_enter();
    lists.instance.DestroyInstance(instance, allocator);
    list_leave();
}

static VKAPI_ATTR VkResult VKAPI_CALL watch_name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT *info)
{
    list_enter();
    const VkResult r = lists.set_name(device, info);
    list_leave();
    atomic_fetch_add(&lists.named, 1);
    return r;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL watch_proc_addr(VkDevice device, const char *name)
{
    list_enter();
    PFN_vkVoidFunction found = lists.instance.GetDeviceProcAddr(device, name);
    if (found && strcmp(name, "vkDestroyDevice") == 0) {
        lists.destroy_device = (PFN_vkDestroyDevice)found;
        found = (PFN_vkVoidFunction)watch_destroy;
    }
    if (found && strcmp(name, "vkSetDebugUtilsObjectNameEXT") == 0) {
        lists.set_name = (PFN_vkSetDebugUtilsObjectNameEXT)found;
        found = (PFN_vkVoidFunction)watch_name;
    }
    list_leave();
    return found;
}

/* Opens a device of an instance of its own, names things, and closes both, in turn. */
static void *run_namer(void *argument)
{
    worker *w = argument;
    rf_result r = RF_OK;
    for (int round = 0; round < 5 && r >= 0; round++) {
        rf_gpu *gpu = NULL;
        rf_gpu_device *device = NULL;
        rf_gpu_recording *rec = NULL;
        RF_TRY_GOTO(rf_gpu_create(NULL, &gpu), done);
        gpu->vk.CreateDevice = watch_create;
        gpu->vk.DestroyInstance = watch_destroy_instance;
        gpu->vk.GetDeviceProcAddr = watch_proc_addr;
        RF_TRY_GOTO(rf_gpu_device_open(gpu, &(rf_gpu_device_params){ .index = w->index }, &device), done);
        for (int named = 0; named < 200 && r >= 0; named++) {
            r = rf_gpu_recording_begin(device, "named", &rec);
            rf_gpu_recording_destroy(&rec);
        }
    done:
        if (r < 0) snprintf(w->message, sizeof(w->message), "%s", rf_error_message());
        rf_gpu_device_close(&device);
        rf_gpu_destroy(&gpu);
    }
    w->result = r;
    return NULL;
}

/* The loader keeps one list of the devices of all instances, without a lock: who names something of one device while
 * another thread opens or closes another reads a device that is half made, or freed. */
static void test_names_beside_opening(void **state)
{
    (void)state;
    rf_gpu *gpu;
    CHECK(rf_gpu_create(NULL, &gpu)); /* keeps the drivers loaded */
    lists.instance = gpu->vk;
    rf_device_info infos[MAX_DEVICES];
    const uint32_t count = list_devices(gpu, infos);
    uint32_t index = 0;
    while (index < count && !infos[index].usable) index++;
    assert_true(index < count);
    worker workers[3] = { { .index = index }, { .index = index }, { .index = index } };
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&workers[i].thread, NULL, run_namer, &workers[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < 3; i++)
        if (workers[i].result < 0) fail_msg("worker %d: %s", i, workers[i].message);
    assert_int_equal(atomic_load(&lists.met), 0);
    assert_true(atomic_load(&lists.named) > 0 || !gpu->debug_utils);
    rf_gpu_destroy(&gpu);
}

/* ---- validation ---- */

static bool open_validated(rf_gpu **gpu)
{
    const rf_result r = rf_gpu_create(&(rf_gpu_params){ .validation = true }, gpu);
    if (r == RF_ERROR_UNSUPPORTED) return false;
    CHECK(r);
    return true;
}

static void test_validation_counts_errors(void **state)
{
    (void)state;
    rf_gpu *gpu;
    if (!open_validated(&gpu)) SKIP("%s", rf_error_message());
    const char *first;
    job j = { 0 };
    start(&j, gpu, 0, 1);
    assert_int_equal(rf_gpu_validation_messages(gpu, &first), 0);
    assert_string_equal(first, "");
    rf_gpu_recording *rec;
    CHECK(rf_gpu_recording_begin(j.device, "wrong", &rec));
    j.device->vk.CmdFillBuffer(rec->commands, j.y->buffer, 1, 4, 0); /* not aligned; our own call refuses it */
    assert_true(rf_gpu_validation_messages(gpu, &first) >= 1);
    assert_non_null(strstr(first, "VUID-vkCmdFillBuffer-dstOffset"));
    assert_int_equal(rf_gpu_validation_messages(NULL, NULL), 0);
    rf_gpu_recording_destroy(&rec);
    finish(&j);
    rf_gpu_destroy(&gpu);
}

/* Which rule was broken is part of the text in older layers and beside it in newer ones. It is reported once. */
static void test_validation_names_rules(void **state)
{
    (void)state;
    const char *const texts[] = { "the offset is odd", "[ VUID-rule ] the offset is odd" };
    const char *const wanted[] = { "VUID-rule: the offset is odd", "[ VUID-rule ] the offset is odd" };
    for (int i = 0; i < 2; i++) {
        rf_gpu *gpu;
        if (!open_validated(&gpu)) SKIP("%s", rf_error_message());
        const PFN_vkSubmitDebugUtilsMessageEXT submit =
            (PFN_vkSubmitDebugUtilsMessageEXT)gpu->global.GetInstanceProcAddr(gpu->instance,
                                                                              "vkSubmitDebugUtilsMessageEXT");
        assert_non_null(submit);
        submit(gpu->instance, VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
               VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
               &(VkDebugUtilsMessengerCallbackDataEXT){
                   .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CALLBACK_DATA_EXT,
                   .pMessageIdName = "VUID-rule",
                   .pMessage = texts[i],
               });
        const char *first;
        assert_int_equal(rf_gpu_validation_messages(gpu, &first), 1);
        assert_string_equal(first, wanted[i]);
        rf_gpu_destroy(&gpu);
    }
}

/* Two dispatches that touch the same words: without a barrier between them synchronisation validation must speak up. */
static void test_validation_sees_missing_barrier(void **state)
{
    (void)state;
    for (int with_barrier = 1; with_barrier >= 0; with_barrier--) {
        rf_gpu *gpu;
        if (!open_validated(&gpu)) SKIP("%s", rf_error_message());
        job j = { 0 };
        start(&j, gpu, 0, 1);
        rf_gpu_recording *rec;
        CHECK(rf_gpu_recording_begin(j.device, "hazard", &rec));
        CHECK(rf_gpu_record_fill(rec, j.y, 0, COUNT * 4, 0));
        if (with_barrier) rf_gpu_record_barrier(rec);
        CHECK(rf_gpu_record_copy(rec, j.y, 0, j.x, 0, COUNT * 4));
        CHECK(rf_gpu_recording_end(rec));
        const char *first;
        const uint64_t messages = rf_gpu_validation_messages(gpu, &first);
        if (with_barrier) {
            assert_int_equal(messages, 0);
        } else {
            assert_true(messages >= 1);
            assert_non_null(strstr(first, "SYNC-HAZARD-READ-AFTER-WRITE"));
        }
        rf_gpu_recording_destroy(&rec);
        finish(&j);
        rf_gpu_destroy(&gpu);
    }
}

TEST_PROGRAM(system)
{
    uint32_t count = 0;
    if (rf_devices_list(NULL, &count) < 0) {
        fprintf(stderr, "skipped: %s\n", rf_error_message());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_index_out_of_range),
        cmocka_unit_test_teardown(test_no_driver, restore_environment),
        cmocka_unit_test_teardown(test_damaged_manifest, restore_environment),
        cmocka_unit_test_teardown(test_no_loader, restore_environment),
        cmocka_unit_test_teardown(test_loader_of_another_system, restore_environment),
        cmocka_unit_test_teardown(test_named_loader, restore_environment),
        cmocka_unit_test_teardown(test_no_validation_layer, restore_environment),
        cmocka_unit_test(test_all_devices_twice),
        cmocka_unit_test(test_instances_in_threads),
        cmocka_unit_test(test_names_beside_opening),
        cmocka_unit_test(test_validation_counts_errors),
        cmocka_unit_test(test_validation_names_rules),
        cmocka_unit_test(test_validation_sees_missing_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
