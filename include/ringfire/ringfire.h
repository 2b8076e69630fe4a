/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * All other headers at once: `#include <ringfire/ringfire.h>`.
 */
#ifndef RINGFIRE_RINGFIRE_H
#define RINGFIRE_RINGFIRE_H

#include <ringfire/checkpoint.h>
#include <ringfire/comm.h>
#include <ringfire/common.h>
#include <ringfire/ctc.h>
#include <ringfire/custom.h>
#include <ringfire/dataset.h>
#include <ringfire/device.h>
#include <ringfire/device_data.h>
#include <ringfire/events.h>
#include <ringfire/gguf.h>
#include <ringfire/interchange.h>
#include <ringfire/layers.h>
#include <ringfire/lora.h>
#include <ringfire/metrics.h>
#include <ringfire/model.h>
#include <ringfire/ops.h>
#include <ringfire/optimizers.h>
#include <ringfire/parameter_server.h>
#include <ringfire/pretrained.h>
#include <ringfire/profile.h>
#include <ringfire/readers.h>
#include <ringfire/status.h>
#include <ringfire/strategy.h>
#include <ringfire/text.h>
#include <ringfire/train.h>
#include <ringfire/version.h>

#endif
