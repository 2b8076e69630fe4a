/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: one struct for all, behaviour in a table per kind. A layer is a description until its first call, which
 * creates its variables for the shape of the input. */
#ifndef RF_TRAIN_LAYERS_LAYER_H
#define RF_TRAIN_LAYERS_LAYER_H

#include <ringfire/model.h>

#include "replica/strategy.h"

typedef struct rf_layer_kind {
    const char *base_name; /* automatic names: "conv2d", "conv2d_1", ... */
    const char *type_name; /* as the summary shows it */
    /* Checks the input (batch included) and creates variables; NULL: nothing to check or create. */
    rf_result (*build)(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input);
    rf_tensor (*call)(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode);
    bool takes_indices; /* i32: of a sequential model that begins with it, inputs are */
    bool narrow;        /* works on types of 16 bits where the policy says so; others get f32 */
    /* Kinds of several inputs or outputs, or of a mask, have these instead of the first two. The numbers of inputs and
     * outputs have been checked. */
    rf_result (*build_inputs)(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in);
    void (*apply)(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *params, rf_tensor *out,
                  uint32_t num_out);
    uint32_t min_inputs, max_inputs, max_outputs;
    bool takes_mask;
    bool shares;                      /* rf_layer_share() */
    bool applies_model;               /* rf_layer_from_model(): numbers of inputs and outputs are the layer's */
    bool takes_start, takes_cache;    /* rf_layer_apply_params::start_index and cache */
    void (*destroy)(rf_layer *layer); /* frees what `u` holds; NULL: nothing */
} rf_layer_kind;

/* Dense layers and convolutions have these in common. */
typedef struct rf_affine {
    rf_activation activation;
    bool use_bias;
    rf_initializer kernel_initializer, bias_initializer;
} rf_affine;

/* The norms of rows have these in common. */
typedef struct rf_norm {
    double epsilon;
    bool center, scale, unit_offset; /* the last: of 1 + gamma */
    rf_initializer gamma_initializer, beta_initializer;
} rf_norm;

enum { RF_MAX_LAYER_VARIABLES = 10 };

/* Tells which variables of a layer are trained. */
typedef struct rf_layer_state {
    bool frozen; /* also what variables are that the layer does not have yet */
    bool variables[RF_MAX_LAYER_VARIABLES];
    uint32_t num_variables;
} rf_layer_state;

struct rf_layer {
    const rf_layer_kind *kind;
    char *name;      /* NULL until the caller or the model gives one */
    rf_model *model; /* owner; NULL: the caller's */
    bool built;
    bool frozen;                                    /* not trained */
    rf_dtype compute;                               /* RF_DTYPE_INVALID: the strategy's, from the first call on */
    bool called;                                    /* `output` is known */
    rf_shape input, output;                         /* of the latest call, batch included */
    rf_variable *variables[RF_MAX_LAYER_VARIABLES]; /* kernel, bias; gamma, beta, moving averages */
    uint32_t num_variables;
    rf_regularizer regularizers[RF_MAX_LAYER_VARIABLES]; /* of each */
    struct rf_product_sites *sites;                      /* products that it makes (product.h); owned */
    rf_layer *inner; /* that it applies to steps, or NULL. Owned, but for its variables, which are this one's */
    union {
        struct {
            int32_t units;
            rf_affine affine;
        } dense;
        struct {
            int32_t filters, kernel_size[2];
            rf_conv2d_params conv;
            rf_affine affine;
        } conv2d;
        struct {
            int32_t input_dim, output_dim;
            rf_initializer initializer;
        } embedding;
        rf_norm norm;
        struct {
            int32_t groups, axis; /* -1 groups: as many as channels */
            rf_norm norm;
        } group_norm;
        rf_pool2d_params pool;
        rf_shape shape;
        rf_activation activation;
        struct {
            float rate;
            uint64_t seed;
        } dropout;
        struct {
            int32_t axis;
            double momentum, epsilon;
            bool center, scale, synchronized, unbiased;
            uint32_t virtual_size; /* 0: of the replica's part */
            rf_initializer gamma_initializer, beta_initializer;
        } batch_norm;
        struct {
            float scale, offset;
        } rescaling;
        struct {
            int32_t axis; /* negative counts from the last */
            bool whole, invert;
            int64_t count;          /* of means; 0: they are not given */
            float *mean, *variance; /* owned */
        } normalization;
        struct {
            rf_lambda_fn fn;
            void *user;
        } lambda;
        struct rf_custom_layer *custom; /* owned */
        struct {
            int32_t filters, kernel_size, stride, dilation, groups;
            rf_padding padding;
            bool causal;
            rf_affine affine;
        } conv1d;
        struct {
            int32_t filters; /* of the separable layer */
            int32_t kernel_size[2], depth_multiplier;
            rf_conv2d_params conv;
            rf_affine affine; /* its kernel is the depthwise one */
            rf_initializer pointwise_initializer;
        } depthwise;
        rf_pool1d_params pool1d;
        struct {
            int32_t factor[2];
            rf_interpolation interpolation;
        } up_sampling;
        int32_t zeros[4]; /* top, bottom, left, right; before, after */
        float slope;
        struct {
            uint32_t shared_axes; /* bit i: axis i; bit 32 - i: axis -i */
            rf_initializer initializer;
        } p_relu;
        struct {
            float deviation;
            uint64_t seed;
        } noise;
        int32_t axis;  /* of concatenate */
        int32_t value; /* of not_equal, token_positions */
        int32_t step;  /* of select_step */
        struct {
            rf_rnn_kind kind;
            int32_t units;
            bool return_sequences, go_backwards, reset_before, use_bias, unit_forget_bias;
            rf_merge merge; /* of bidirectional */
            rf_initializer kernel_initializer, recurrent_initializer;
        } rnn;
        struct {
            int32_t num_heads, num_key_value_heads, key_dim, value_dim, output_dim;
            int32_t window;                                           /* 0: none */
            float dropout, rotary_base, scale, softcap, norm_epsilon; /* 0: none; scale 0: 1 / sqrt(key_dim) */
            uint64_t seed;
            bool causal, use_bias, use_output_bias, packed;
            rf_initializer kernel_initializer;
            rf_rotary_params rotary;
        } attention;
        struct {
            const rf_layer *embedding; /* of the same model */
            bool use_bias;
        } embedding_head;
        rf_layer *shared; /* of a model to which the layer has a reference */
        struct {
            rf_model *model;   /* a reference; NULL: as yet a description, of one to be made */
            rf_model *own;     /* the same, where nobody else destroys it */
            char *last;        /* the name of the last layer that is applied; NULL: all are */
            char *description; /* model_json.h; NULL: it was made of a model, or is of that of */
            const rf_layer *same;
            uint32_t num_inputs, num_outputs;
        } model;
        struct {
            int32_t max_length; /* 0: sines */
            float max_wavelength;
            rf_initializer initializer;
        } position;
    } u;
};

/* ---- custom.c ---- */
bool rf_layer_is_custom(const rf_layer *layer);
/* A layer of the caller has these; `config` is NULL where it cannot be made again. */
const char *rf_custom_layer_type(const rf_layer *layer);
const char *rf_custom_layer_config(const rf_layer *layer);
/* By the function that is registered for the type. RF_ERROR_UNSUPPORTED without one. */
rf_result rf_custom_layer_make(const char *type, const char *name, const char *config, rf_layer **out);

/* The layer itself, or the other model's that it applies. */
const rf_layer *rf_layer_original(const rf_layer *layer);

/* Whether the layer takes so many inputs, a mask, and has so many outputs; with rf_layer_check_pieces() all that
 * rf_layer_apply() is given. */
rf_result rf_layer_check_call(const rf_layer *layer, uint32_t num_in, bool mask, uint32_t num_out);
rf_result rf_layer_check_pieces(const rf_layer *layer, const rf_layer_apply_params *params);
/* A zeroed layer of a kind; `name` may be NULL. */
rf_result rf_layer_new(const rf_layer_kind *kind, const char *name, rf_layer **out);
/* Frees it, no matter what owns it. */
void rf_layer_free(rf_layer *layer);
/* Creates "<layer>/<suffix>" as the layer's next variable. */
rf_result rf_layer_add_variable(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                                rf_initializer initializer);
/* The same for a weight that products take as such a matrix. */
rf_result rf_layer_add_weight(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                              rf_initializer initializer, rf_weight_matrix matrix);
/* The same for one that no optimizer updates. */
rf_result rf_layer_add_state(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                             rf_initializer initializer);
/* The same with a value instead of an initializer. */
rf_result rf_layer_add_value(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                             const float *value);
rf_result rf_layer_add_state_value(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                                   const float *value);
/* Some of its variables have a penalty. */
bool rf_layer_is_regularized(const rf_layer *layer);
void rf_layer_drop_variables(rf_layer *layer);

/* `function` and `field` are for messages. */
rf_result rf_layer_check_initializer(const rf_initializer *i, const char *function, const char *field);
rf_result rf_layer_check_regularizer(rf_regularizer regularizer, const char *function, const char *field);
/* Checks and fills the common part; `function` is for messages. */
rf_result rf_affine_init(rf_affine *affine, const char *function, rf_activation activation, bool no_bias,
                         rf_initializer kernel, const rf_initializer *bias, rf_regularizer regularizer);
/* The type of what it works on in this trace. */
rf_dtype rf_layer_type(rf_trace *t, const rf_layer *layer);
/* A variable as the operand of a product: in the type that the layer computes in. */
rf_tensor rf_layer_weight(rf_trace *t, const rf_layer *layer, rf_variable *variable);
/* Bias and activation after the product. */
rf_tensor rf_affine_finish(rf_trace *t, const rf_layer *layer, const rf_affine *affine, rf_tensor product);
bool rf_activation_valid(rf_activation activation);
/* Padding is one of the kinds, strides and such are not negative; `function`, a constructor, is for messages. */
rf_result rf_layer_check_conv2d(const rf_conv2d_params *conv, const char *function);
/* Consecutive examples of a batch that the layer needs on one replica: 1 where it does not care. */
uint32_t rf_layer_keeps_together(const rf_layer *layer);
/* f32 of so many dimensions; `what` names them. */
rf_result rf_layer_check_input(const rf_layer *layer, rf_dtype dtype, rf_shape input, int32_t rank, const char *what);
#define RF_LAYER_SEQUENCES 3, "sequences [n, steps, channels]"
#define RF_LAYER_IMAGES 4, "images [n, height, width, channels]"

/* ---- layer_call.c ---- */
/* The variables that it has now are trained or not as the layer says. */
void rf_layer_freeze_variables(rf_layer *layer);
rf_layer_state rf_layer_state_of(const rf_layer *layer);
/* The layer gets the state, and *state what it had. */
void rf_layer_exchange_state(rf_layer *layer, rf_layer_state *state);

#endif
