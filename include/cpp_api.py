# SPDX-License-Identifier: Apache-2.0
"""Writes <ringfire/api.hpp> from the C headers: for each object with a destroy function a class
that owns it, whose methods are the functions that take it; for each params struct one with setters;
and every operation for tensors.

cpp_api.py OUT DEPENDENCIES

A function is left out where C++ needs more than its declaration says: arrays of no known length,
buffers to fill in, functions of the caller. Those of them that programs need are in ringfire.hpp,
and the others are called as in C: a handle converts to a pointer."""
import pathlib
import re
import sys

import headers

# What ringfire.hpp adds to a class, where a function of the caller is taken or a loop is helped.
MEMBERS = {
    "strategy": """
    /** Runs a function on every replica, and gives its results: rf_strategy_run(). */
    returned<results> run(const function &function, const rf_element &batch) const;
    /** A scalar result, combined over replicas: rf_strategy_reduce(). */
    returned<float> reduce(rf_reduce_op op, const rf_per_replica *value) const;
""",
    "function": """
    /** A function of a step: a callable that takes `inputs` and returns nothing, a tensor, or a
     * std::array of tensors. It lives as long as the function. */
    template <class F>
    static returned<function> create(rf_strategy *strategy, F step, rf_function_params params = {});
""",
    "model": """
    /** A model of layers, one after the other, which it takes over. */
    static returned<model> sequential(rf_strategy *strategy, view<ringfire::layer> layers,
                                      const rf_shape &input_shape = {});
    /** A model of a callable (rf_trace *, rf_model *, tensor, rf_mode) -> tensor. */
    template <class F> static returned<model> create(rf_strategy *strategy, F forward);
    /** Applies the model inside a step. */
    tensor operator()(const tensor &x, rf_mode mode = RF_INFERENCE) const { return call(x, mode); }
    /** Trains a compiled model: rf_model_fit(). */
    returned<history> fit(const rf_fit_params &params) const;
    /** Predictions for all elements of a dataset. */
    returned<array> predict(const rf_dataset *data) const;
    /** Goes on with texts: the new tokens of each prompt. */
    returned<std::vector<array>> generate(const rf_generate_params &params) const;
    /** Gives a layer to the model; the handle goes on naming it. */
    returned<void> add_layer(const ringfire::layer &layer) const;
""",
    "dataset": """
    /** Elements that a callable makes of those of this dataset: (const rf_element &in, rf_element
     * &out). It may be called by a prefetch thread. */
    template <class F> returned<dataset> map(const rf_element_spec &spec, F fn) const;
    /** The elements for which a callable (const rf_element &) -> bool says so. */
    template <class F> returned<dataset> filter(F fn) const;
    /** Elements that a callable (uint64_t index, rf_element &out) -> bool makes; false ends. */
    template <class F>
    static returned<dataset> from_generator(const rf_element_spec &spec, F generate,
                                            uint64_t cardinality = 0);
    /** The elements of one pass, for a loop: for (const rf_element &batch : data.pass(epoch)). */
    ringfire::pass pass(uint64_t epoch = 0) const;
""",
    "callback": """
    /** A callback of an object with any of Keras' functions: on_epoch_end(state, logs), ... */
    template <class C> static returned<callback> create(C object);
""",
    "checkpoint": """
    /** Makes an iterator part of the checkpoint: rf_checkpoint_add_iterator(). */
    returned<void> add_iterator(c_string name, iterator &position, const rf_dataset *data) const;
    /** Makes a number part of the checkpoint, which it must outlive. */
    returned<void> add_counter(c_string name, uint64_t &counter) const;
""",
    "checkpoint_manager": """
    /** Restores the latest checkpoint, and gives its number; none where there is none. */
    returned<std::optional<uint64_t>> restore(const rf_restore_params &params = {}) const;
""",
    "device_data": """
    /** In a step: the components of the elements whose numbers `rows` holds. */
    std::vector<tensor> take(const tensor &rows) const;
""",
    "layer": """
    /** The usual dense layer and convolution, as Keras' constructors have them. */
    static returned<layer> dense(int32_t units, rf_activation activation = RF_ACTIVATION_LINEAR);
    static returned<layer> conv2d(int32_t filters, int32_t kernel_size,
                                  rf_activation activation = RF_ACTIVATION_LINEAR);
""",
    "optimizer": """
    /** An optimizer that has the defaults of its kind. */
    static returned<optimizer> create(rf_strategy *strategy, rf_optimizer_kind kind,
                                      double learning_rate);
""",
    "metric": """
    /** A metric that has the defaults of its kind. */
    static returned<metric> create(rf_strategy *strategy, rf_metric_kind kind, c_string name);
    /** Adds values to a mean or a sum. */
    void update(const tensor &values) const { update({}, values); }
    /** The result, after which the metric begins anew. */
    returned<double> take() const;
""",
    "iterator": """
    /** The next element, valid until the next call; nullptr at the end of the pass. */
    returned<const rf_element *> next() const;
""",
    "model_builder": """
    /** Makes the model, and ends the builder. */
    returned<model> finish(view<rf_symbol> outputs);
""",
    "pretrained": """
    /** The model, which belongs to this object: rf_pretrained_model(). */
    ringfire::model model() const;
""",
    "tokenizer": """
    /** The tokens of a text. */
    returned<array> encode(const std::string &text) const { return encode(text, text.size()); }
    /** The text of tokens: rf_tokenizer_decode(). */
    returned<std::string> decode(view<int32_t> tokens) const;
""",
    "text_stream": """
    /** Adds a token, and gives the text that is certain then: rf_text_stream_add(). */
    returned<std::string> add(int32_t token) const;
    /** What was held back. */
    returned<std::string> finish() const;
""",
    "chat_template": """
    /** A chat as text: rf_chat_template_apply(). */
    returned<std::string> apply(const rf_chat &chat, const rf_chat_apply_params &params = {}) const;
""",
    "variable": """
    /** The value that this worker's first replica has. */
    returned<std::vector<float>> read() const;
    /** Sets the value on all replicas of this worker. */
    returned<void> assign(view<float> values) const;
    /** The value of the variable in the step that `trace` traces. */
    tensor in(rf_trace *trace) const { return { trace, rf_variable_tensor(trace, get()) }; }
""",
}
# Arrays that these functions give out belong to an object.
BORROWED = {"rf_per_replica_local"}
# Functions that take a layer over.
EXTRA_STRUCTS = {"rf_initializer", "rf_loss", "rf_regularizer", "rf_schedule", "rf_dtype_policy"}
TAKES_OVER = {"rf_layer_bidirectional", "rf_layer_time_distributed", "rf_model_builder_call",
              "rf_model_builder_call_many", "rf_model_builder_apply"}
# Written by hand in ringfire.hpp, with more checks than the declaration allows.
BY_HAND = {"rf_model_create_sequential", "rf_model_add_layer", "rf_model_fit", "rf_model_predict",
           "rf_model_generate", "rf_pretrained_model", "rf_tokenizer_decode",
           "rf_text_stream_add", "rf_text_stream_finish",
           "rf_chat_template_apply",
           "rf_model_builder_finish", "rf_variable_read", "rf_variable_assign", "rf_strategy_run",
           "rf_strategy_reduce", "rf_iterator_next", "rf_gradients", "rf_transpose",
           "rf_variable_tensor", "rf_checkpoint_add_iterator"}
# Functions whose first part is of a header, not of an object: they are methods of this object.
METHODS = {"rf_lora_": "model"}
# Defaults of last arguments, by their name and by their type.
DEFAULTS = {"seed": "0", "epsilon": "0", "sample_weight": "{}", "step": "{}"}
USUAL = {"bool": "false", "rf_shuffle_mode": "RF_SHUFFLE_EACH_PASS",
         "rf_batch_remainder": "RF_REMAINDER_KEEP", "rf_matmul_transpose": "RF_TRANSPOSE_NONE",
         "rf_reduced_dims": "RF_DROP_DIMS", "rf_scan_form": "RF_SCAN_INCLUSIVE",
         "rf_sort_order": "RF_ASCENDING", "rf_gelu_form": "RF_GELU_ERF",
         "rf_prediction_form": "RF_PROBABILITIES", "rf_ignore_mode": "RF_IGNORE_SILENTLY",
         "rf_csv_log_mode": "RF_CSV_LOG_REPLACE", "rf_bias_use": "RF_WITH_BIAS"}
SCALARS = r"(bool|float|double|u?int(8|32|64)_t|size_t)"
RESERVED = {"default", "operator", "delete", "new", "class", "switch", "export", "register"}


def parse(text):
    """All functions, the handles (name: destroy function) and the structs by name."""
    functions = list(headers.functions(text))
    handles = {}
    for result, name, parameters in functions:
        m = re.fullmatch(r"rf_(\w+)_(destroy|close)", name)
        if m and [t for t, _ in parameters] == ["rf_%s **" % m[1]]:
            handles[m[1]] = name
    return functions, handles, headers.structs(text)


def plain(kind):
    return " ".join(kind.replace("*", " * ").split()).replace(" *", "*")


class Function:
    """A C function as C++: its class or None, name, parameters, and the call."""

    def __init__(self, result, name, parameters, handles, structs):
        self.c_name, self.result, self.handles, self.structs = name, plain(result), handles, structs
        self.parameters = [(plain(kind), n) for kind, n in parameters]
        self.arguments, self.cpp, self.outs, self.checks = [], [], [], []
        self.traced, self.self_const, self.owner, self.keeps = False, None, None, []
        self.operands = []
        # The handle that the name begins with: the longest, as in rf_checkpoint_manager_create().
        self.subject = max((h for h in handles if name.startswith("rf_%s_" % h)), key=len,
                           default=None)
        self.guest = next((o for prefix, o in METHODS.items() if name.startswith(prefix)), None)
        self.subject = self.subject or self.guest
        self.fits = name not in BY_HAND and self.read()
        if self.fits:
            self.place()

    def handle(self, kind):
        """The handle that a pointer or pointer to pointer names."""
        m = re.fullmatch(r"(?:const )?rf_(\w+)\*+", kind)
        return m[1] if m and m[1] in self.handles else None

    def read(self):
        """Understands the parameters; false where one of them needs more than its type says."""
        parameters, i = self.parameters, 0
        while i < len(parameters):
            kind, name = parameters[i]
            following = parameters[i + 1] if i + 1 < len(parameters) else ("", "")
            if i == 0 and kind == "rf_trace*":
                self.traced = True
                self.arguments.append("trace")
            elif not self.one(kind, name, following, i + 1 == len(parameters)):
                return False
            i += 1
        return not any(a is None for a in self.arguments)

    def count_of(self, name, following):
        """Whether a count for the array `name` comes later."""
        at = [n for _, n in self.parameters].index(name)
        return any(k in ("uint32_t", "uint64_t") and n.startswith("num_")
                   for k, n in self.parameters[at + 1:at + 4])

    def one(self, kind, name, following, last):
        name = name + "_" if name in RESERVED else name
        own = self.handle(kind)
        if kind == "rf_tensor":
            self.take("const tensor &%s" % name, name, DEFAULTS.get(name), operand=name)
        elif kind == "const rf_tensor*" and self.count_of(name.rstrip("_"), following):
            self.view("tensor", name, "detail::ids(%s).data()" % name, operand=True)
        elif own and kind.endswith("**"):
            if "const" in kind or name not in ("out", "first", "second", "value"):
                return False
            self.outs.append((own, name))
            self.arguments.append("made_%s.out()" % name)
        elif own:
            self.object(kind, own, name)
        elif kind == "const rf_dataset* const*" and self.count_of(name, following):
            self.view("dataset_argument", name, "detail::datasets(%s).data()" % name)
            self.keeps.append(name)
        elif re.fullmatch(r"(const )?rf_\w+\*const\*", kind) and name in ("in", "layers"):
            element = kind[:-len("*const*")] + " *"
            self.view(element, name, name + ".data()")
        elif kind == "const char*":
            self.take("c_string %s" % name, name)
        elif kind == "const char*const*" and self.count_of(name, following):
            self.view("const char *", name, name + ".data()")
        elif m := re.fullmatch(r"const (rf_\w+)\*", kind):
            if m[1] not in self.structs:
                self.take("%s %s" % (kind.replace("*", " *"), name), name)
            elif self.count_of(name, following) and name.endswith("s") and name != "params":
                self.view(m[1], name, name + ".data()")
            else:
                optional = m[1].endswith("_params")
                self.take("const %s &%s" % (m[1], name), "&" + name, "{}" if optional else None)
        elif m := re.fullmatch(r"const %s\*" % SCALARS, kind):
            if not self.count_of(name, following):
                return False
            self.view(m[1], name, name + ".data()")
        elif kind in ("uint32_t", "uint64_t") and name.startswith("num_") and self.views:
            self.arguments.append("static_cast<%s>(%s.size())" % (kind, self.views[0]))
            self.checks = self.views[1:]
        elif m := re.fullmatch(r"(rf_tensor|rf_\w+|%s)\*" % SCALARS, kind):
            if not (last and name == "out" or name in ("mean", "variance", "values", "indices")
                    and m[1] in ("rf_tensor", "rf_array")) or m[1] == "rf_array_set":
                return False
            self.outs.append((m[1], name))
            self.arguments.append("&made_%s" % name)
        elif kind == "char**" and last:
            self.outs.append(("char *", name))
            self.arguments.append("&made_%s" % name)
        elif re.search(r"\*|_fn$", kind):
            return False
        else:
            default = DEFAULTS.get(name) or USUAL.get(kind)
            self.take("%s %s" % (kind, name), name, default)
        return True

    views = ()

    def take(self, parameter, argument, default=None, operand=None):
        self.cpp.append((parameter, default))
        self.arguments.append(argument)
        if operand:
            self.operands.append(operand)

    def view(self, element, name, argument, operand=False):
        self.take("view<%s> %s" % (element, name), argument, DEFAULTS.get(name),
                  operand=name if operand else None)
        self.views = (*self.views, name)

    def object(self, kind, own, name):
        """A handle: the object whose method this is, or an argument."""
        if own == self.subject and self.owner is None:
            self.owner, self.self_const = own, True
            self.arguments.append("give()" if self.c_name in TAKES_OVER else "get()")
            self.keeps.append("*this")
        elif own == "dataset":
            self.take("const dataset_argument &%s" % name, name)
            self.keeps.append(name)
        elif own == "layer" and self.c_name in TAKES_OVER:
            self.take("const layer &%s" % name, name + ".give()")
        else:
            self.take("%s%s" % (kind.replace("*", " *"), name), name)

    def place(self):
        """The class and the name in it."""
        stem = self.c_name[len("rf_"):]
        if self.owner is None and len(self.outs) == 1 and self.outs[0][0] in self.handles:
            made = self.outs[0][0]
            if made == self.subject:
                self.owner = made
        if self.owner and not self.guest:
            stem = stem[len(self.owner) + 1:]
            stem = re.sub(r"^create_(?=\w)", "", stem)
        self.name = stem + "_" if stem in RESERVED else stem
        if self.traced and not self.operands:
            self.cpp.insert(0, ("rf_trace *trace", None))
        # A default needs one behind it everywhere.
        rest = len(self.cpp)
        while rest and self.cpp[rest - 1][1] is not None:
            rest -= 1
        self.cpp = [(p, d if i >= rest else None) for i, (p, d) in enumerate(self.cpp)]

    def made_type(self, kind):
        return self.MADE.get(kind, (kind, ""))[0] if self.owned(kind) else kind

    # How a value of C is given out: its type, and the expression.
    MADE = {"rf_tensor": ("tensor", "tensor(trace, made_%s)"),
            "char *": ("std::string", "detail::owned_string(made_%s)"),
            "rf_array": ("array", "array(made_%s)")}

    def owned(self, kind):
        return kind != "rf_array" or self.c_name not in BORROWED

    def returns(self):
        if self.outs:
            kinds = [self.made_type(k) for k, _ in self.outs]
            kind = kinds[0] if len(kinds) == 1 else "std::pair<%s>" % ", ".join(kinds)
            return kind if self.traced or self.result != "rf_result" else "returned<%s>" % kind
        if self.result == "rf_result":
            return "void" if self.traced else "returned<void>"
        return {"rf_tensor": "tensor"}.get(self.result, self.result.replace("*", " *"))

    def signature(self, qualified=False):
        declared = not (qualified and self.owner)
        parameters = ", ".join(p + (" = " + d if d and declared else "") for p, d in self.cpp)
        name = "%s::%s" % (self.owner, self.name) if qualified and self.owner else self.name
        end = " const" if self.self_const else ""
        return "%s %s(%s)%s" % (self.returns(), name, parameters, end)

    def declaration(self):
        static = "static " if self.owner and not self.self_const else ""
        return "    /** %s() */\n    %s%s;\n" % (self.c_name, static, self.signature())

    def body(self):
        lines = []
        if self.traced and self.operands:
            lines.append("rf_trace *trace = detail::trace_of(%s);" % ", ".join(self.operands))
        for kind, name in self.outs:
            own = kind in self.handles
            declared = "ringfire::%s made_%s;" if own else "%s made_%s = {};"
            lines.append((declared % (kind, name)).replace("* ", "*"))
        call = "%s(%s)" % (self.c_name, ", ".join(self.arguments))
        for other in self.checks:
            lines.append("if (%s.size() != 0 && %s.size() != %s.size()) %s" %
                         (other, other, self.views[0], self.unequal(other)))
        if not self.outs:
            if self.result == "rf_result" and not self.traced:
                return lines + ["return detail::done(%s);" % call]
            if self.result == "rf_result":
                return lines + ["(void)%s;" % call]
            if self.result == "rf_tensor":
                return lines + ["return { trace, %s };" % call]
            return lines + [("" if self.result == "void" else "return ") + call + ";"]
        moved = "made_%s" if self.result != "rf_result" else "std::move(made_%s)"
        made = [(self.MADE[k][1] if k in self.MADE and self.owned(k) else moved) % n
                for k, n in self.outs]
        value = made[0] if len(made) == 1 else "%s(%s)" % (
            "std::pair<%s>" % ", ".join(self.made_type(k) for k, _ in self.outs), ", ".join(made))
        if self.traced:
            return lines + ["(void)%s;" % call, "return %s;" % value]
        if self.result != "rf_result":
            return lines + [call + ";", "return %s;" % value]
        lines.append("const rf_result r = %s;" % call)
        for kind, name in self.outs:
            if kind in ("dataset", "iterator", "device_data"):
                lines += ["made_%s.keep(callables());" % name if k == "*this" else
                          "for (const auto &each : %s) made_%s.keep(each.callables());" % (k, name)
                          if k in self.views else "made_%s.keep(%s.callables());" % (name, k)
                          for k in self.keeps]
        return lines + ["return detail::done(r, %s);" % value]

    def unequal(self, other):
        message = '"%s(): %%zu %s, but %%zu %s"' % (self.c_name, other, self.views[0])
        fail = "rf_trace_fail(trace, RF_ERROR_INVALID_ARGUMENT, %s, %s.size(), %s.size())" % (
            message, other, self.views[0])
        return "return { trace, ((void)%s, rf_tensor{}) };" % fail

    def definition(self):
        return "inline %s\n{\n%s}\n" % (self.signature(True),
                                        "".join("    %s\n" % line for line in self.body()))


def setters(name, body):
    """A struct with a setter for each field: dense_params().units(10).activation(...)."""
    own = name[len("rf_"):]
    lines = []
    for declaration in body.split(";"):
        declaration = " ".join(declaration.split())
        if not declaration or "reserved" in declaration or "(" in declaration:
            continue
        m = re.fullmatch(r"((?:const )?\w+) ?(.*)", declaration)
        for declarator in m[2].split(","):
            d = re.fullmatch(r"\s*(\*?(?:const \*)?)(\w+)(\[\w+\])?", declarator)
            if not d:
                continue
            field = d[2]
            if d[3] and not d[1]:
                lines.append("    template <class... V> %s &%s(V... values)\n    {\n"
                             "        static_assert(sizeof...(V) <= sizeof(%s::%s) / sizeof(%s));\n"
                             "        std::size_t i = 0;\n"
                             "        ((%s::%s[i++] = static_cast<%s>(values)), ...);\n"
                             "        return *this;\n    }\n" %
                             (own, field, name, field, m[1], name, field, m[1]))
            elif not d[3]:
                kind = m[1] + " " + d[1]
                lines.append("    %s &%s(%s%svalue)\n    {\n        %s::%s = value;\n"
                             "        return *this;\n    }\n" %
                             (own, field, kind, "" if d[1] else "", name, field))
    return "/** %s with setters. */\nstruct %s : %s {\n    %s() : %s{} {}\n%s};\n" % (
        name, own, name, own, name, "".join(lines))


def write(text):
    functions, handles, structs = parse(text)
    made = [Function(*f, handles, structs) for f in functions]
    made = [f for f in made if f.fits and not re.search(r"_(destroy|close|free)$", f.c_name)]
    out = ["/* SPDX-License-Identifier: Apache-2.0 */\n/** @file Written by cpp_api.py from the C "
           "headers; programs include ringfire.hpp. */\n#ifndef RINGFIRE_API_HPP\n"
           "#define RINGFIRE_API_HPP\n\n#include <ringfire/core.hpp>\n\nnamespace ringfire {\n\n"]
    out += ["class %s;\n" % own for own in handles]
    out.append("class results;\nclass pass;\n\n")
    for name in sorted(structs):
        if name.endswith("_params") or name in EXTRA_STRUCTS:
            out.append(setters(name, structs[name]) + "\n")
    for own, destroy in handles.items():
        base = "handle<rf_%s, %s>" % (own, destroy)
        members = "".join(f.declaration() for f in made if f.owner == own)
        out.append("/** Owns an ::rf_%s. */\nclass %s : public %s {\npublic:\n"
                   "    using handle::handle;\n%s%s    using handle::out;\n};\n\n" %
                   (own, own, base, members, MEMBERS.get(own, "")))
    out += [f.definition() + "\n" for f in made if f.owner]
    # Names of the library's own namespaces and of C++ alone are left to the C functions.
    out += ["/** %s() */\n%s\n" % (f.c_name, f.definition()) for f in made
            if not f.owner and (f.traced or f.outs) and f.c_name != "rf_trace_fail"]
    out.append("} // namespace ringfire\n#endif\n")
    return "".join(out)


def main():
    out, dependencies = sys.argv[1:3]
    pathlib.Path(out).write_text(write(headers.read()))
    pathlib.Path(dependencies).write_text("%s: %s\n" % (out, " ".join(map(str, headers.paths()))))


if __name__ == "__main__":
    main()
