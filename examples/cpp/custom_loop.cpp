/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom training loop under a mirrored strategy, in C++: the program of custom_loop.c, with its options, output and
 * checkpoints.
 */
#include <ringfire/ringfire.hpp>

extern "C" {
#include "../common/common.h"
}

namespace rf = ringfire;

static rf::dataset batched(rf::dataset data, uint32_t batch_size, const example_options *shuffled)
{
    if (shuffled) data = data.shuffle(static_cast<uint64_t>(data.cardinality()), shuffled->seed);
    return data.batch(batch_size).prefetch(2);
}

/* The objects that are trained and measured. The strategy is borrowed. */
struct trainer {
    explicit trainer(rf_strategy *on, double learning_rate)
        : strategy(on), model(rf::model::sequential(strategy, layers(), rf::shape(28, 28, 1))),
          optimizer(rf::optimizer::create(strategy,
                                          rf::optimizer_params().kind(RF_OPTIMIZER_ADAM).learning_rate(learning_rate))),
          train_loss(rf::metric::create(strategy, rf::metric_params().kind(RF_METRIC_MEAN).name("train_loss"))),
          train_accuracy(rf::metric::create(
              strategy, rf::metric_params().kind(RF_METRIC_SPARSE_CATEGORICAL_ACCURACY).name("train_accuracy"))),
          test_loss(rf::metric::create(strategy, rf::metric_params().kind(RF_METRIC_MEAN).name("test_loss"))),
          test_accuracy(rf::metric::create(
              strategy, rf::metric_params().kind(RF_METRIC_SPARSE_CATEGORICAL_ACCURACY).name("test_accuracy")))
    {
        test_step = rf::function::create(
            strategy,
            [this](const rf::inputs &in) {
                const rf::tensor predictions = model(in[0]);
                test_loss.update(loss_call(loss, in[1], predictions));
                test_accuracy.update(in[1], predictions);
            },
            rf::function_params().name("test_step"));
    }
    ~trainer() { strategy.release(); }

    static std::array<rf::layer, 7> layers()
    {
        const auto convolution = [](int32_t filters) {
            return rf::layer::conv2d(
                rf::conv2d_layer_params().filters(filters).kernel_size(3).activation(RF_ACTIVATION_RELU));
        };
        return { convolution(32),
                 rf::layer::max_pool2d(),
                 convolution(64),
                 rf::layer::max_pool2d(),
                 rf::layer::flatten(),
                 rf::layer::dense(rf::dense_params().units(64).activation(RF_ACTIVATION_RELU)),
                 rf::layer::dense(rf::dense_params().units(10)) };
    }

    /* Loss and accuracy over the test set; none where a stop was agreed meanwhile. */
    std::optional<std::pair<double, double>> test(const rf::dataset &data)
    {
        for (const rf_element &batch : data.pass()) {
            strategy.run(test_step, batch);
            if (strategy.stop_agreed()) return std::nullopt;
        }
        const std::pair<double, double> measured(test_loss.result(), test_accuracy.result());
        test_loss.reset();
        test_accuracy.reset();
        return measured;
    }

    rf::strategy strategy;
    const rf_loss loss = rf::loss().from_logits(true).reduction(RF_REDUCTION_NONE);
    rf::model model;
    rf::optimizer optimizer;
    rf::metric train_loss, train_accuracy, test_loss, test_accuracy;
    rf::function test_step;
};

/* One pass over the training set, or what is left of it after a restart. Returns images per second. */
static double train_epoch(trainer &t, const rf::function &step, const rf::dataset &data, rf::iterator &position,
                          uint64_t epoch)
{
    if (!position) position = rf::iterator::create(data, epoch);
    const std::string label = "Epoch " + std::to_string(epoch + 1);
    progress bar;
    progress_begin(&bar, label.c_str(), data.cardinality() * data.batch_size(), t.strategy.is_chief());
    int64_t seen = 0;
    while (const rf_element *batch = position.next()) {
        const double loss = t.strategy.reduce(RF_REDUCE_SUM, t.strategy.run(step, *batch)[0]);
        if (example_check_loss(loss, epoch + 1, t.optimizer.iterations()) < 0) throw std::range_error("loss");
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
    rf_dataset *loaded[2];
    if (example_load_images(&options, &loaded[0], &loaded[1]) < 0) return -1;
    trainer t(strategy, options.learning_rate);
    const uint32_t global_batch = options.batch_size * t.strategy.num_replicas_in_sync();
    rf::dataset train_data = batched(rf::dataset(loaded[0]), global_batch, &options);
    const rf::dataset test_data = t.strategy.distribute_dataset(batched(rf::dataset(loaded[1]), global_batch, nullptr));
    /* Where the training set lies on the devices, batches are numbers of its rows. */
    const auto kept =
        rf::device_data::create(strategy, train_data, rf::device_data_params().policy(options.device_cache));
    train_data = t.strategy.distribute_dataset(kept ? kept.rows() : train_data.get());

    const auto train_step = rf::function::create(
        t.strategy,
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
        rf::checkpoint_manager_params params;
        params.directory(options.checkpoint_dir)
            .save(rf::save_params().async(true).sharded(options.sharded_checkpoints));
        manager = rf::checkpoint_manager::create(checkpoint, params);
        if (manager.restore() && epoch < options.epochs)
            example_print("Continuing in epoch %u\n", static_cast<unsigned>(epoch) + 1);
    }
    const auto save = [&] {
        if (manager) manager.save(t.optimizer.iterations());
    };
    const auto stop = [&] {
        example_print("Stopped on request in epoch %u\n", static_cast<unsigned>(epoch) + 1);
        save();
        if (checkpoint) checkpoint.wait();
        return checkpoint ? STOPPED : 0;
    };

    std::optional<std::pair<double, double>> tested;
    while (epoch < options.epochs) {
        const double rate = train_epoch(t, train_step, train_data, position, epoch);
        if (t.strategy.stop_agreed() || !(tested = t.test(test_data))) return stop();
        position.reset();
        epoch++;
        example_print("Epoch %u, Loss: %.4f, Accuracy: %.2f, Test Loss: %.4f, Test Accuracy: %.2f  (%.0f images/s)\n",
                      static_cast<unsigned>(epoch), t.train_loss.result(), 100 * t.train_accuracy.result(),
                      tested->first, 100 * tested->second, rate);
        t.train_loss.reset();
        t.train_accuracy.reset();
        if (epoch % 2 == 0 || epoch == options.epochs) save();
    }
    if (!tested && !(tested = t.test(test_data))) return example_stopped();
    example_print("Test accuracy: %.2f %%\n", 100 * tested->second);
    if (checkpoint) checkpoint.wait();
    return 0;
}

/* A new model on one device gets what the latest checkpoint has of it, whatever strategy saved it. */
static void restore_without_strategy(const example_options &options)
{
    rf_dataset *loaded[2];
    const std::string latest = rf::checkpoint_latest(options.checkpoint_dir, nullptr);
    rf::strategy strategy = rf::strategy::one_device();
    trainer t(strategy.get(), options.learning_rate);
    const auto checkpoint = rf::checkpoint::create(strategy);
    checkpoint.add_model("model", t.model);
    checkpoint.restore(latest, rf::restore_params().partial(true));
    if (example_load_images(&options, &loaded[0], &loaded[1]) < 0) return;
    rf::dataset(loaded[0]).reset();
    const auto tested = t.test(batched(rf::dataset(loaded[1]), options.batch_size, nullptr));
    example_print("Accuracy after restoring the saved model without strategy: %.2f\n", 100 * tested->second);
}

int main(int argc, char **argv)
{
    example_options options = {};
    options.epochs = 10;
    example_parse(argc, argv,
                  "Trains a CNN on Fashion-MNIST with a custom training loop on all Vulkan devices at once.",
                  "dDebsrncPBk", &options);
    rf_strategy *strategy = nullptr;
    int status = -1;
    try {
        status = example_create_strategy(&options, &strategy);
        if (status == 0) status = train(options, strategy);
        const bool chief = rf_strategy_is_chief(strategy);
        example_destroy_strategy(&strategy);
        if (status == 0 && options.checkpoint_dir && chief) restore_without_strategy(options);
    } catch (const std::range_error &) { /* which has been told */
        status = -1;
    } catch (const rf::error &) {
        example_report_failure();
        status = -1;
    }
    example_destroy_strategy(&strategy);
    return example_exit_status(status);
}
