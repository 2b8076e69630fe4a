/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/internal.h"

#define MAX_INLINE_RECORDINGS 16

static rf_result update_completed(rf_gpu_device *device)
{
    uint64_t value = 0;
    RF_VK_TRY(device, device->vk.GetSemaphoreCounterValue(device->device, device->timeline, &value),
              "reading the timeline");
    /* A lost device may report any value. */
    if (value > device->completed && value <= device->submitted) device->completed = value;
    return RF_OK;
}

bool rf_gpu_is_done(rf_gpu_device *device, uint64_t ticket)
{
    if (ticket > device->completed && !device->lost) (void)update_completed(device);
    return ticket <= device->completed && rf_gpu_memory_invalidate(device) >= 0;
}

static rf_result submit_commands(rf_gpu_device *device, const VkCommandBuffer *commands, uint32_t count)
{
    RF_TRY(rf_gpu_memory_flush(device));
    const uint64_t value = device->submitted + 1;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .commandBufferCount = count,
        .pCommandBuffers = commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &device->timeline,
    };
    RF_VK_TRY(device, device->vk.QueueSubmit(device->queue, 1, &info, VK_NULL_HANDLE), "submitting %u recordings",
              count);
    device->submitted = value;
    return RF_OK;
}

rf_result rf_gpu_flush(rf_gpu_device *device)
{
    RF_REQUIRE(device, "device is NULL");
    if (device->held.count == 0) return RF_OK;
    RF_TRY(rf_gpu_check_lost(device));
    RF_TRY(submit_commands(device, device->held.items, device->held.count));
    device->held.count = 0;
    return RF_OK;
}

static rf_result hold_back(rf_gpu_device *device, rf_gpu_recording *const *recs, uint32_t count, uint64_t *ticket)
{
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(RF_VEC_GROW(&device->held));
        device->held.items[device->held.count++] = recs[i]->commands;
        recs[i]->ticket = device->submitted + 1;
    }
    *ticket = device->submitted + 1;
    return device->holds ? RF_OK : rf_gpu_flush(device);
}

rf_result rf_gpu_queue_submit(rf_gpu_device *device, rf_gpu_recording *const *recs, uint32_t count, uint64_t *ticket)
{
    if (device->holds || device->held.count > 0) return hold_back(device, recs, count, ticket);
    VkCommandBuffer few[MAX_INLINE_RECORDINGS] = { 0 };
    VkCommandBuffer *commands = count <= MAX_INLINE_RECORDINGS ? few : RF_NEW_ARRAY(VkCommandBuffer, count);
    if (!commands) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) commands[i] = recs[i]->commands;
    const rf_result r = submit_commands(device, commands, count);
    if (commands != few) rf_free(commands);
    RF_TRY(r);
    for (uint32_t i = 0; i < count; i++) recs[i]->ticket = device->submitted;
    *ticket = device->submitted;
    return RF_OK;
}

void rf_gpu_hold(rf_gpu_device *device, bool hold)
{
    device->holds = hold;
}

bool rf_gpu_has_held(const rf_gpu_device *device)
{
    return device->held.count > 0;
}

uint64_t rf_gpu_num_submissions(const rf_gpu_device *device)
{
    return device->submitted; /* each takes the next value of the timeline */
}

uint64_t rf_gpu_num_drains(const rf_gpu_device *device)
{
    return device->num_drains;
}

uint64_t rf_gpu_spin_ns(const rf_device_caps *caps, uint64_t timeout_ns)
{
    /* A thread that sleeps in the driver is woken 10 to 50 us after the device has finished, as long as many steps of
     * small models take. A software device needs the processor for its own work. */
    const uint64_t most = 30000;
    if (caps->is_cpu) return 0;
    return timeout_ns < most ? timeout_ns : most;
}

/* Looks again and again for a moment; ends early when the device has got to `ticket`. */
static rf_result ticket_spin(rf_gpu_device *device, uint64_t ticket, uint64_t spin_ns)
{
    if (spin_ns == 0) return RF_OK;
    const uint64_t end = rf_now_ns() + spin_ns;
    do RF_TRY(update_completed(device));
    while (ticket > device->completed && rf_now_ns() < end);
    device->vain_spins = ticket > device->completed ? device->vain_spins + 1 : 0;
    return RF_OK;
}

rf_result rf_gpu_wait_spinning(rf_gpu_device *device, uint64_t ticket, uint64_t spin_ns, uint64_t timeout_ns)
{
    RF_REQUIRE(device, "device is NULL");
    if (ticket > device->submitted) RF_TRY(rf_gpu_flush(device));
    RF_REQUIRE(ticket <= device->submitted, "%s: ticket %llu was never submitted", device->info.name,
               (unsigned long long)ticket);
    RF_TRY(rf_gpu_check_lost(device));
    if (ticket == device->submitted && device->held.count == 0) device->num_drains++;
    if (ticket > device->completed) RF_TRY(ticket_spin(device, ticket, spin_ns));
    if (ticket <= device->completed) return rf_gpu_memory_invalidate(device);
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &device->timeline,
        .pValues = &ticket,
    };
    const VkResult waited = device->vk.WaitSemaphores(device->device, &info, timeout_ns);
    if (waited == VK_TIMEOUT)
        return RF_FAIL_NATIVE(RF_ERROR_TIMEOUT, "vulkan", waited, "%s: work was not finished after %llu ms",
                              device->info.name, (unsigned long long)(timeout_ns / 1000000));
    RF_VK_TRY(device, waited, "waiting for the device");
    if (ticket > device->completed) device->completed = ticket;
    return rf_gpu_memory_invalidate(device);
}

rf_result rf_gpu_wait(rf_gpu_device *device, uint64_t ticket, uint64_t timeout_ns)
{
    RF_REQUIRE(device, "device is NULL");
    /* Spins that find nothing only cost the processor: after some in a row, waits sleep at once. */
    const uint64_t spin_ns =
        device->vain_spins < RF_GPU_MOST_VAIN_SPINS ? rf_gpu_spin_ns(&device->plan.caps, timeout_ns) : 0;
    return rf_gpu_wait_spinning(device, ticket, spin_ns, timeout_ns);
}

rf_result rf_gpu_wait_all(rf_gpu_device *device)
{
    RF_TRY(rf_gpu_flush(device));
    return rf_gpu_wait(device, device->submitted, RF_GPU_TIMEOUT_NS);
}

rf_result rf_gpu_watch(const rf_gpu_device *device, uint64_t ticket, uint64_t timeout_ns)
{
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &device->timeline,
        .pValues = &ticket,
    };
    const VkResult waited = device->vk.WaitSemaphores(device->device, &info, timeout_ns);
    if (waited == VK_SUCCESS) return RF_OK;
    return waited == VK_TIMEOUT ? RF_ERROR_TIMEOUT : RF_ERROR_DEVICE_LOST;
}

rf_result rf_gpu_submit_host_flush(rf_gpu_device *device, uint64_t *ticket)
{
    RF_REQUIRE(device, "device is NULL");
    if (device->flushed != device->submitted || device->held.count > 0) {
        RF_TRY(rf_gpu_wait(device, device->flushed, RF_GPU_TIMEOUT_NS)); /* the recording's latest submission */
        RF_TRY(rf_gpu_queue_submit(device, &device->host_flush, 1, &device->flushed));
        RF_TRY(rf_gpu_flush(device));
    }
    *ticket = device->flushed;
    return RF_OK;
}

rf_result rf_gpu_flush_to_host(rf_gpu_device *device)
{
    uint64_t ticket = 0;
    RF_TRY(rf_gpu_submit_host_flush(device, &ticket));
    return rf_gpu_wait(device, ticket, RF_GPU_TIMEOUT_NS);
}
