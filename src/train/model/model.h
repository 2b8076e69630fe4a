/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_MODEL_MODEL_H
#define RF_TRAIN_MODEL_MODEL_H

#include <ringfire/model.h>

#include "base/memory.h"
#include "step/step.h"
#include "train/layers/layer.h"

typedef struct rf_compiled rf_compiled;       /* compile.h */
typedef struct rf_layer_graph rf_layer_graph; /* layer_graph.h */
typedef struct rf_generator rf_generator;     /* generate.c */

typedef struct rf_lora_set rf_lora_set; /* lora.h */

/* Where files of others have a weight of a model. */
typedef struct rf_weight_place {
    char *module;    /* the tensor's name without ".weight"; NULL: they have none. Free with rf_free */
    uint32_t part;   /* of its outputs, from 1 on; 0: all of them */
    bool transposed; /* it is [out, in] */
    bool head;       /* it makes the model's outputs */
} rf_weight_place;
/* The names that they have: those of a model that was opened from such files. */
typedef struct rf_weight_names {
    rf_result (*find)(const void *user, const char *variable, rf_weight_place *out);
    const void *user;
    const char *origin; /* the path of the files */
    const char *task;   /* PEFT's word for what the model does; NULL: none */
} rf_weight_names;

/* A variable that belongs to a model. */
typedef struct rf_model_variable {
    rf_variable *variable; /* a reference */
    char *name;            /* the variable's, with a number where the model has another one of that name */
    bool adapter;          /* of an adapter, which checkpoints hold without the frozen weights beside it */
} rf_model_variable;

struct rf_model {
    uint32_t references; /* its maker's, and one of each model that calls it and of each checkpoint that has it */
    bool destroyed;      /* by its maker */
    rf_strategy *strategy;
    struct {
        rf_layer **items;
        uint32_t count, capacity;
    } layers;                /* owned */
    rf_model_call_fn call;   /* with `apply` NULL: the layers in sequence */
    rf_model_apply_fn apply; /* of rf_model_create(), or that of `graph` */
    void *user;
    const rf_layer *calling; /* the layer of it, a model, that a trace is in; NULL: none */
    rf_layer_graph *graph;   /* of a functional model: how its layers are connected. Owned */
    uint32_t num_inputs, num_outputs;
    const char *input_names[RF_MAX_COMPONENTS], *output_names[RF_MAX_COMPONENTS]; /* in `names` */
    bool built;                                                                   /* a call has gone through */
    rf_tensor_desc outputs[RF_MAX_COMPONENTS];                                    /* as `inputs` */
    rf_tensor_desc inputs[RF_MAX_COMPONENTS];                                     /* of an example, where `built` */
    struct {
        rf_model_variable *items;
        uint32_t count, capacity;
    } tracked; /* all variables of its layers, of the models that it calls, and those it uses otherwise */
    /* Room for as many as are tracked; filled when somebody asks, as layers may be frozen at any time. */
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } trainable, others;
    struct {
        rf_model **items;
        uint32_t count, capacity;
    } callees;                                        /* models that it calls, also through others; references */
    rf_optimizer *own_optimizer;                      /* of a model that was loaded; NULL: none */
    rf_compiled *compiled;                            /* NULL before rf_model_compile() */
    void (*destroy_compiled)(rf_compiled **compiled); /* set with it */
    uint64_t passes; /* through the data of fit that were begun, whatever the data was */
    void *position;  /* where the latest fit stopped within such a pass (rf_iterator_save()); may be NULL */
    size_t position_size;
    bool adapted;                                        /* has adapters */
    rf_lora_set *lora;                                   /* them and what they need; NULL: nothing yet */
    void (*destroy_lora)(rf_lora_set **lora);            /* set with it */
    const rf_weight_names *weight_names;                 /* borrowed; NULL: only its own */
    rf_function *predict;                                /* made by the first rf_model_predict() */
    rf_generator *generator;                             /* made by rf_model_generate(); NULL: none */
    void (*destroy_generator)(rf_generator **generator); /* set with it */
    rf_arena names; /* of inputs, outputs and logs: histories refer to them as long as the model lives */
};

/* For those that keep it: its variables stay until they release it, even when its maker has destroyed it. */
rf_model *rf_model_retain(rf_model *model);
void rf_model_release(rf_model *model);
/* Fails, in the name of the public function, when its maker has destroyed it. */
rf_result rf_model_check_alive(const rf_model *model, const char *function);

bool rf_model_is_sequential(const rf_model *model);
/* Sequential or functional: made of layers alone, so that a file can describe it. */
bool rf_model_is_data(const rf_model *model);
/* Takes the layer over, also when it fails, unless it belongs to a model already. `function` is for messages. */
rf_result rf_model_adopt(rf_model *model, rf_layer *layer, const char *function);
/* A built model of a checked graph. Takes over the graph and its layers, also when it fails. */
rf_result rf_model_create_from_graph(rf_strategy *strategy, const rf_model_params *params, rf_layer_graph *graph,
                                     rf_layer *const *layers, uint32_t num_layers, rf_model **out);
/* rf_model_apply() of all inputs and outputs, for steps of the library. */
rf_result rf_model_apply_all(rf_trace *t, rf_model *model, const rf_tensor *in, rf_mode mode, rf_tensor *out);

/* The same up to the layer `last`, by its name, whose first output at its last use is then the only one. NULL: all. */
rf_result rf_model_apply_part(rf_trace *t, rf_model *model, const rf_tensor *in, rf_mode mode, const char *last,
                              rf_tensor *out);

/* A piece of sequences whose earlier places have been read: where its first step stands, and keys and values of each
 * use of attention, in the order of the graph, before (`cache`) and after (`kept`, which is filled in). */
typedef struct rf_model_pieces {
    rf_tensor start;
    const rf_tensor *cache;
    rf_tensor *kept;
} rf_model_pieces;
/* Applies a functional model that is built to a piece, in inference. */
rf_result rf_model_apply_piece(rf_trace *t, rf_model *model, const rf_tensor *in, const rf_model_pieces *pieces,
                               rf_tensor *out);

/* How layers act: they train where they are called for it, in a function that trains. One rule for all of them, which
 * every call of a model and of a layer asks. */
static inline rf_mode rf_mode_of(const rf_trace *t, rf_mode asked)
{
    return rf_trace_training(t) ? asked : RF_INFERENCE;
}

/* ---- names.c ---- */
/* Names inputs and outputs, after their numbers are set: those of the caller, or the default where they are NULL. */
rf_result rf_model_set_names(rf_model *model, const char *const *inputs, const char *const *outputs);
/* "user, item", or "label of rating, label of likes": for messages. */
const char *rf_model_format_elements(const rf_model *model, bool labels, char *text, size_t size);

/* ---- variables.c ---- */
/* Makes a variable one of the model's, unless it is already. */
rf_result rf_model_track(rf_model *model, rf_variable *variable);
/* Forgets what was tracked later. */
void rf_model_untrack(rf_model *model, uint32_t num_tracked, uint32_t num_callees);
/* Forgets one of them. */
void rf_model_forget(rf_model *model, const rf_variable *variable);
/* Whether a checkpoint holds it: of a model with adapters, these and what is trained alone. */
bool rf_model_keeps(const rf_model *model, const rf_model_variable *variable);
/* The model has other layers than in what was traced of it: predict traces it anew, and it has to be compiled. */
void rf_model_forget_traces(rf_model *model);
/* Within a call of the model by a trace: variables and models that are used become the model's, and those of all models
 * whose calls are under way. */
typedef struct rf_model_call_scope {
    rf_trace_listener listener;
} rf_model_call_scope;
rf_result rf_model_enter_call(rf_trace *t, rf_model *model, rf_model_call_scope *scope);
void rf_model_leave_call(rf_trace *t, const rf_model_call_scope *scope);
/* A layer of `model` is called in a trace. */
rf_result rf_model_note_callee(rf_trace *t, rf_model *model);
/* The part is the model, or one that it has as a layer, directly or through others. */
bool rf_model_contains(const rf_model *model, const rf_model *part);
/* Its layers, then those of the models that it calls. */
uint32_t rf_model_num_all_layers(const rf_model *model);
rf_layer *rf_model_any_layer(const rf_model *model, uint32_t index);

/* ---- model_layer.c ---- */
/* A layer that applies a model, once it is given one, which the layer retains. */
rf_result rf_model_layer_new(const char *name, const char *last, rf_layer **out);
void rf_model_layer_attach(rf_layer *layer, rf_model *model);

/* One line of a summary. */
typedef struct rf_summary_row {
    const char *name, *type;
    bool has_output;
    rf_shape output; /* batch included; shown as "n" */
    uint64_t params;
} rf_summary_row;
/* The table that rf_model_summary() gives. `title` is the model's kind; `not_trainable` of all parameters are not. Free
 * with rf_free. */
rf_result rf_summary_format(const char *title, const rf_summary_row *rows, uint32_t num_rows, uint64_t not_trainable,
                            char **text);

#endif
