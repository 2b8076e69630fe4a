/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom training loop under a mirrored strategy, in C++: the program of custom_loop.c, with its options, output and
 * checkpoints.
 */
#include "program.hpp"

namespace rf = ringfire;

static rf::dataset batched(const rf::dataset &data, uint32_t batch_size)
{
    return data.batch(batch_size).prefetch(2);
}

/* The objects that are trained and measured. The strategy is borrowed. */
struct trainer {
    trainer(rf_strategy *on, double rate) : strategy(rf::borrow<rf::strategy>(on)), learning_rate(rate) {}

    static std::array<rf::layer, 7> layers()
    {
        return { rf::layer::conv2d(32, 3, RF_ACTIVATION_RELU),
                 rf::layer::max_pool2d(),
                 rf::layer::conv2d(64, 3, RF_ACTIVATION_RELU),
                 rf::layer::max_pool2d(),
                 rf::layer::flatten(),
                 rf::layer::dense(64, RF_ACTIVATION_RELU),
                 rf::layer::dense(10) };
    }
    rf::metric metric(rf_metric_kind kind, const char *name) const { return rf::metric::create(strategy, kind, name); }

    /* Loss and accuracy over the test set; none where a stop was agreed meanwhile. */
    std::optional<std::pair<double, double>> test(const rf::dataset &data) const
    {
        for (const rf_element &batch : data.pass()) {
            strategy.run(test_step, batch);
            if (strategy.stop_agreed()) return std::nullopt;
        }
        return std::pair(test_loss.take(), test_accuracy.take());
    }

    rf::strategy strategy;
    double learning_rate;
    rf_loss loss = rf::loss().from_logits(true).reduction(RF_REDUCTION_NONE);
    rf::model model = rf::model::sequential(strategy, layers(), rf::shape(28, 28, 1));
    rf::optimizer optimizer = rf::optimizer::create(strategy, RF_OPTIMIZER_ADAM, learning_rate);
    rf::metric train_loss = metric(RF_METRIC_MEAN, "train_loss"), test_loss = metric(RF_METRIC_MEAN, "test_loss");
    rf::metric train_accuracy = metric(RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, "train_accuracy");
    rf::metric test_accuracy = metric(RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, "test_accuracy");
    rf::function test_step = rf::function::create(
        strategy,
        [this](const rf::inputs &in) {
            const rf::tensor predictions = model(in[0]);
            test_loss.update(loss_call(loss, in[1], predictions));
            test_accuracy.update(in[1], predictions);
        },
        rf::function_params().name("test_step"));
};

/* One pass over the training set, or what is left of it after a restart. Returns images per second. */
static double train_epoch(const trainer &t, const rf::function &step, const rf::dataset &data, rf::iterator &position,
                          uint64_t epoch)
{
    if (!position) position = rf::iterator::create(data, epoch);
    progress bar;
    progress_begin(&bar, ("Epoch " + std::to_string(epoch + 1)).c_str(), data.cardinality() * data.batch_size(),
                   t.strategy.is_chief());
    int64_t seen = 0;
    while (const rf_element *batch = position.next()) {
        const double loss = t.strategy.reduce(RF_REDUCE_SUM, t.strategy.run(step, *batch)[0]);
        check(example_check_loss(loss, epoch + 1, t.optimizer.iterations()));
        seen += rf_element_global_rows(batch);
        if (t.strategy.stop_agreed()) break;
        char status[64] = "";
        if (progress_due(&bar))
            std::snprintf(status, sizeof(status), "loss %.4f  accuracy %.2f %%", loss,
                          100 * t.train_accuracy.local_result());
        progress_update(&bar, seen, status);
    }
    return progress_end(&bar);
}

static int train(const example_options &options, rf_strategy *strategy)
{
    const trainer t(strategy, options.learning_rate);
    rf::dataset images, test_images;
    check(example_load_images(&options, images.out(), test_images.out()));
    const uint32_t global_batch = options.batch_size * t.strategy.num_replicas_in_sync();
    const rf::dataset batches =
        batched(images.shuffle(static_cast<uint64_t>(images.cardinality()), options.seed), global_batch);
    const rf::dataset test_data = t.strategy.distribute_dataset(batched(test_images, global_batch));
    /* Where the training set lies on the devices, batches are numbers of its rows. */
    const auto kept = rf::device_data::create(strategy, batches, rf::device_data_params().policy(options.device_cache));
    const rf::dataset train_data = t.strategy.distribute_dataset(kept ? kept.rows() : batches.get());

    const auto train_step = rf::function::create(
        strategy,
        [&](const rf::inputs &in) {
            const std::vector<rf::tensor> batch = kept ? kept.take(in[0]) : std::vector{ in[0], in[1] };
            const rf::tensor predictions = t.model(batch[0], RF_TRAINING);
            const rf::tensor losses = loss_call(t.loss, batch[1], predictions);
            const rf::tensor loss = compute_average_loss(losses);
            t.optimizer.minimize(loss, t.model.variables());
            t.train_loss.update(losses);
            t.train_accuracy.update(batch[1], predictions);
            return loss;
        },
        rf::function_params().name("train_step").training(true));
    example_print("%llu parameters, global batch %u\n", static_cast<unsigned long long>(t.model.num_params()),
                  global_batch);

    rf::iterator position; /* of the epoch that was interrupted */
    uint64_t epoch = 0;
    rf::checkpoint checkpoint;
    rf::checkpoint_manager manager;
    if (options.checkpoint_dir) {
        checkpoint = rf::checkpoint::create(strategy);
        checkpoint.add_model("model", t.model);
        checkpoint.add_optimizer("optimizer", t.optimizer);
        checkpoint.add_function("train_step", train_step);
        checkpoint.add_metric("train_loss", t.train_loss);
        checkpoint.add_metric("train_accuracy", t.train_accuracy);
        checkpoint.add_iterator("train_iterator", position, train_data);
        checkpoint.add_counter("epoch", epoch);
        if (check(example_open_manager(&options, checkpoint, manager.out())) > 0 && epoch < options.epochs)
            example_print("Continuing in epoch %u\n", static_cast<unsigned>(epoch) + 1);
    }
    std::optional<std::pair<double, double>> tested;
    while (epoch < options.epochs) {
        const double rate = train_epoch(t, train_step, train_data, position, epoch);
        if (t.strategy.stop_agreed() || !(tested = t.test(test_data)))
            return example_stop(checkpoint, manager, t.optimizer, epoch);
        position.reset();
        epoch++;
        example_print("Epoch %u, Loss: %.4f, Accuracy: %.2f, Test Loss: %.4f, Test Accuracy: %.2f  (%.0f images/s)\n",
                      static_cast<unsigned>(epoch), t.train_loss.take(), 100 * t.train_accuracy.take(), tested->first,
                      100 * tested->second, rate);
        if (epoch % 2 == 0 || epoch == options.epochs) check(example_save(manager, t.optimizer));
    }
    if (!tested && !(tested = t.test(test_data))) return example_stopped();
    example_print("Test accuracy: %.2f %%\n", 100 * tested->second);
    if (checkpoint) checkpoint.wait();
    return 0;
}

/* A new model on one device gets what the latest checkpoint has of it, whatever strategy saved it. */
static void restore_without_strategy(const example_options &options)
{
    const rf::strategy strategy = rf::strategy::one_device();
    const trainer t(strategy, options.learning_rate);
    const auto checkpoint = rf::checkpoint::create(strategy);
    checkpoint.add_model("model", t.model);
    checkpoint.restore(rf::checkpoint_latest(options.checkpoint_dir, nullptr), rf::restore_params().partial(true));
    rf::dataset images, test_images;
    check(example_load_images(&options, images.out(), test_images.out()));
    const auto tested = t.test(batched(test_images, options.batch_size));
    example_print("Accuracy after restoring the saved model without strategy: %.2f\n", 100 * tested->second);
}

int main(int argc, char **argv)
{
    example_options options = {};
    options.epochs = 10;
    example_parse(argc, argv,
                  "Trains a CNN on Fashion-MNIST with a custom training loop on all Vulkan devices at once.",
                  "dDebsrncPBk", &options);
    const auto work = [&](rf_strategy *strategy) { return train(options, strategy); };
    return run_program(options, work, [&](bool chief) {
        if (options.checkpoint_dir && chief) restore_without_strategy(options);
    });
}
