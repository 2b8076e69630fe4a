/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a Vulkan device that should be there is not: found by looking at drivers' manifests, device files, containers'
 * settings and limits of memory. The looking (absence_facts.c) and what follows from it (absence.c, pure) are apart.
 */
#ifndef RF_GPU_ABSENCE_H
#define RF_GPU_ABSENCE_H

#include "base/error.h"
#include "base/limits.h"

#define RF_VENDOR_AMD 0x1002
#define RF_VENDOR_INTEL 0x8086
#define RF_VENDOR_NVIDIA 0x10de

enum { RF_ABSENCE_MANIFESTS = 32, RF_ABSENCE_NODES = 16, RF_ABSENCE_GPUS = 16 };

typedef struct rf_absence_manifest {
    char path[256];
    char problem[256]; /* "": it is well-formed, and its library can be loaded */
    bool of_library;   /* the problem is the library's */
} rf_absence_manifest;

typedef struct rf_absence_node {
    char path[64];        /* "/dev/dri/renderD128" */
    char group[32];       /* that it belongs to: its name, or its number where it has none here; "" for root's */
    bool waits_for_login; /* the user has been added to that group since this session began */
    int denied;           /* errno of opening it; 0: it can be */
    uint32_t vendor;      /* PCI; 0: not known */
} rf_absence_node;

typedef struct rf_absence_facts {
    const char *named_by; /* the variable that names the manifests; NULL: they are searched for */
    const char *filter;   /* a variable that keeps the loader from some of them; NULL: there is none */
    rf_absence_manifest manifests[RF_ABSENCE_MANIFESTS];
    rf_absence_node nodes[RF_ABSENCE_NODES];
    uint32_t gpus[RF_ABSENCE_GPUS]; /* PCI vendors of the display controllers on the bus, of the vendors above */
    uint32_t num_manifests, num_nodes, num_gpus;
    const char *nvidia_capabilities; /* NVIDIA_DRIVER_CAPABILITIES; NULL: not set */
    bool in_container;
    rf_memory_limits limits;
} rf_absence_facts;

typedef enum rf_absence {
    RF_ABSENCE_OF_ALL,     /* no driver can be loaded, or none lists a device */
    RF_ABSENCE_OF_GPUS,    /* of all of them, where one is meant */
    RF_ABSENCE_OF_ANOTHER, /* there are GPUs, but not the one that is meant */
    RF_ABSENCE_BY_DEFAULT, /* of GPUs where none is asked for: only what certainly keeps one away */
} rf_absence;

/* RF_ABSENCE_BY_DEFAULT does without the manifests, since their libraries are loaded to look at them. */
void rf_absence_take_facts(rf_absence of, rf_absence_facts *out);
/* Adds the likeliest cause to the record of the failure `result`, where one is found; returns it. */
rf_result rf_absence_add_cause(rf_absence of, rf_result result);
/* The likeliest cause and the fix, as a sentence without a full stop; "" where the facts say nothing. Pure. Returns
 * whether they do. */
bool rf_absence_explain(rf_absence of, const rf_absence_facts *facts, char *text, size_t size);

#endif
