/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about devices that are missing, on made-up machines. */
#include "gpu_test.h"

#include <errno.h>
#include <string.h>

#include "gpu/device/absence.h"
#include "tests/room.h"

#define NO_LIMIT .limits = { .address_space = { UINT64_MAX, 0 }, .data = { UINT64_MAX, 0 }, .group = { UINT64_MAX, 0 } }
#define GIB (1ull << 30)
#define LIMIT_TO(bytes)                                                                                                \
    .limits = { .address_space = { bytes, GIB / 8 }, .data = { UINT64_MAX, 0 }, .group = { UINT64_MAX, 0 } }
#define RENDER(error, belongs)                                                                                         \
    .nodes = { { .path = "/dev/dri/renderD128", .denied = error, .group = belongs, .vendor = RF_VENDOR_AMD } },        \
    .num_nodes = 1
#define NVIDIA_NODE .nodes = { { .path = "/dev/nvidiactl", .vendor = RF_VENDOR_NVIDIA } }, .num_nodes = 1
#define LAVAPIPE                                                                                                       \
    {                                                                                                                  \
        .path = "/usr/share/vulkan/icd.d/lvp_icd.json"                                                                 \
    }
#define ICD(name, why, library)                                                                                        \
    {                                                                                                                  \
        .path = "/usr/share/vulkan/icd.d/" name, .problem = why, .of_library = library                                 \
    }

static const struct {
    const char *what;
    rf_absence of;
    rf_absence_facts facts;
    const char *says[2]; /* parts of the explanation; none: there is none */
} cases[] = {
    /* Manifests. */
    { "a manifest that was cut off",
      RF_ABSENCE_OF_ALL,
      { NO_LIMIT, .manifests = { LAVAPIPE, ICD("a.json", "no JSON", false) }, .num_manifests = 2 },
      { "icd.d/a.json cannot be used: no JSON" } },
    { "the same, named",
      RF_ABSENCE_OF_ALL,
      { NO_LIMIT, .named_by = "VK_DRIVER_FILES", .manifests = { ICD("a.json", "no JSON", false) }, .num_manifests = 1 },
      { "icd.d/a.json of VK_DRIVER_FILES cannot be used: no JSON" } },
    { "a list without an entry",
      RF_ABSENCE_OF_ALL,
      { NO_LIMIT, .named_by = "VK_ICD_FILENAMES" },
      { "VK_ICD_FILENAMES names no driver's manifest" } },
    { "a library that is missing",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, .manifests = { ICD("radeon_icd.json", "librad.so: no such file", true) }, .num_manifests = 1 },
      { "radeon_icd.json cannot be used: librad.so: no such file" } },
    { "a filter",
      RF_ABSENCE_OF_ALL,
      { NO_LIMIT, .filter = "VK_LOADER_DRIVERS_DISABLE", .manifests = { LAVAPIPE }, .num_manifests = 1 },
      { "VK_LOADER_DRIVERS_DISABLE keeps" } },
    { "nothing to be seen", RF_ABSENCE_OF_ALL, { NO_LIMIT }, { NULL } },
    /* Memory. */
    { "a library that finds no addresses",
      RF_ABSENCE_OF_ALL,
      { LIMIT_TO(GIB / 4), .manifests = { ICD("lvp_icd.json", "cannot map", true) }, .num_manifests = 1 },
      { "limited to 0.25 GiB of address space by `ulimit -v`, and has 0.12", "raise" } },
    { "a cut manifest goes before a limit",
      RF_ABSENCE_OF_ALL,
      { LIMIT_TO(GIB / 4), .manifests = { ICD("lvp_icd.json", "no JSON", false) }, .num_manifests = 1 },
      { "no JSON" } },
    { "a limit that is wide enough", RF_ABSENCE_OF_ALL, { LIMIT_TO(16 * GIB) }, { NULL } },
    /* Permissions. */
    { "not in the group",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, RENDER(EACCES, "render") },
      { "/dev/dri/renderD128 cannot be opened (Permission denied): add this user to the group render",
        "usermod -aG render" } },
    { "not in the group, by default",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, RENDER(EACCES, "video") },
      { "the group video" } },
    { "not in the group, beside another GPU",
      RF_ABSENCE_OF_ANOTHER,
      { NO_LIMIT, RENDER(EACCES, "render") },
      { "the group render" } },
    { "added, but not logged in since",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT,
        .nodes = { { .path = "/dev/dri/renderD129", .denied = EACCES, .group = "render", .waits_for_login = true } },
        .num_nodes = 1 },
      { "log in again, so that this user's new group render counts" } },
    { "a container without the group",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, .in_container = true, RENDER(EACCES, "109") },
      { "start the container with --group-add 109" } },
    { "a container that may not use the device",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, .in_container = true, RENDER(EPERM, "render") },
      { "(Operation not permitted): start the container with --device" } },
    { "root's alone", RF_ABSENCE_OF_GPUS, { NO_LIMIT, RENDER(EACCES, "") }, { "root's alone" } },
    { "a driver that has failed",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, RENDER(ENODEV, "render") },
      { "cannot be opened (No such device)" } },
    { "the second of two",
      RF_ABSENCE_OF_ANOTHER,
      { NO_LIMIT,
        .nodes = { { .path = "/dev/dri/renderD128" },
                   { .path = "/dev/dri/renderD129", .denied = EACCES, .group = "render" } },
        .num_nodes = 2 },
      { "renderD129" } },
    { "a virtual machine's display, by default",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, .nodes = { { .path = "/dev/dri/renderD128", .denied = EACCES, .group = "render", .vendor = 0x1af4 } },
        .num_nodes = 1 },
      { NULL } },
    { "the same, where a GPU is meant",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, .nodes = { { .path = "/dev/dri/renderD128", .denied = EACCES, .group = "render", .vendor = 0x1af4 } },
        .num_nodes = 1 },
      { "the group render" } },
    { "a chip without a PCI bus, by default",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, .nodes = { { .path = "/dev/mali0", .denied = EACCES, .group = "video" } }, .num_nodes = 1 },
      { "/dev/mali0 cannot be opened", "the group video" } },
    /* NVIDIA's containers. */
    { "capabilities that leave Vulkan out",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, NVIDIA_NODE, .nvidia_capabilities = "compute,utility" },
      { "NVIDIA_DRIVER_CAPABILITIES is 'compute,utility'", "NVIDIA_DRIVER_CAPABILITIES=all" } },
    { "no capabilities in a container",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, NVIDIA_NODE, .in_container = true },
      { "NVIDIA_DRIVER_CAPABILITIES is not set" } },
    { "no container", RF_ABSENCE_BY_DEFAULT, { NO_LIMIT, NVIDIA_NODE }, { NULL } },
    { "with graphics",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, NVIDIA_NODE, .in_container = true, .nvidia_capabilities = "graphics,compute" },
      { NULL } },
    { "all of them",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, NVIDIA_NODE, .in_container = true, .nvidia_capabilities = "all" },
      { NULL } },
    { "a manifest whose library is not there",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, NVIDIA_NODE, .in_container = true,
        .manifests = { ICD("nvidia_icd.json", "libGLX_nvidia.so.0: none", true) }, .num_manifests = 1 },
      { "NVIDIA_DRIVER_CAPABILITIES is not set" } },
    { "the driver is there",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, NVIDIA_NODE, .in_container = true, .manifests = { ICD("nvidia_icd.json", "", false) },
        .num_manifests = 1 },
      { NULL } },
    /* Hardware. */
    { "no device file",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, .gpus = { RF_VENDOR_AMD }, .num_gpus = 1 },
      { "there is an AMD GPU without a device file: load its kernel driver" } },
    { "no device file in a container",
      RF_ABSENCE_OF_ALL,
      { NO_LIMIT, .in_container = true, .gpus = { RF_VENDOR_NVIDIA }, .num_gpus = 1 },
      { "an NVIDIA GPU", "--gpus all" } },
    { "no driver",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, RENDER(0, ""), .gpus = { RF_VENDOR_AMD }, .num_gpus = 1, .manifests = { LAVAPIPE },
        .num_manifests = 1 },
      { "an AMD GPU without a driver for Vulkan: install mesa-vulkan-drivers" } },
    { "no driver among those named",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, RENDER(0, ""), .gpus = { RF_VENDOR_AMD }, .num_gpus = 1, .named_by = "VK_DRIVER_FILES",
        .manifests = { LAVAPIPE }, .num_manifests = 1 },
      { "an AMD GPU, of which VK_DRIVER_FILES names no driver" } },
    { "the driver is there, too",
      RF_ABSENCE_OF_GPUS,
      { NO_LIMIT, RENDER(0, ""), .gpus = { RF_VENDOR_AMD }, .num_gpus = 1,
        .manifests = { ICD("radeon_icd.json", "", false) }, .num_manifests = 1 },
      { NULL } },
    { "one without a driver is no matter by default",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, .gpus = { RF_VENDOR_INTEL }, .num_gpus = 1 },
      { NULL } },
    { "drivers that are chosen are no matter by default",
      RF_ABSENCE_BY_DEFAULT,
      { NO_LIMIT, .named_by = "VK_DRIVER_FILES", RENDER(EACCES, "render") },
      { NULL } },
    { "another GPU's driver",
      RF_ABSENCE_OF_ANOTHER,
      { NO_LIMIT, .gpus = { RF_VENDOR_INTEL }, .num_gpus = 1 },
      { NULL } },
};

TEST(causes_are_found)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        const bool found = rf_absence_explain(cases[i].of, &cases[i].facts, text, sizeof(text));
        if (found != (text[0] != '\0') || found != (cases[i].says[0] != NULL))
            fail_msg("%s: '%s'", cases[i].what, text);
        for (int k = 0; k < 2 && cases[i].says[k]; k++)
            if (!strstr(text, cases[i].says[k]))
                fail_msg("%s: '%s' does not say '%s'", cases[i].what, text, cases[i].says[k]);
    }
}

TEST(limits_are_told)
{
    rf_memory_limits l = { { UINT64_MAX, GIB }, { UINT64_MAX, GIB }, { UINT64_MAX, 0 } };
    char text[256];
    assert_false(rf_memory_limits_describe(&l, GIB, text, sizeof(text)));
    assert_string_equal(text, "");
    l.group = (rf_memory_limit){ 2 * GIB, 2 * GIB - 100 };
    assert_false(rf_memory_limits_describe(&l, 100, text, sizeof(text)));
    assert_true(rf_memory_limits_describe(&l, 101, text, sizeof(text)));
    assert_string_equal(text, "the control group of this process is limited to 2.00 GiB of memory by its container or "
                              "job, and has 2.00; raise the limit");
    l.data = (rf_memory_limit){ GIB, 2 * GIB }; /* set below what was there already */
    assert_true(rf_memory_limits_describe(&l, 1, text, sizeof(text)));
    assert_non_null(strstr(text, "1.00 GiB of data by `ulimit -d`, and has 2.00"));
    rf_memory_limits_take(&l);
    assert_in_range(l.address_space.used, 1 << 20, UINT64_MAX - 1);
    assert_in_range(l.data.used, 1 << 10, l.address_space.used);
}

TESTS(absence, NULL, NULL)
