/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of Jinja that chat templates use. A template is parsed into a tree once, and run with values as often as
 * wanted. A run has bounds of steps, memory and depth, so that each ends, whatever the template says. Failures begin
 * with "line N".
 */
#ifndef RF_TEXT_JINJA_JINJA_H
#define RF_TEXT_JINJA_JINJA_H

#include <jansson.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/bytes.h"

/* ---- values ---- */

typedef enum rf_jinja_type {
    RF_JINJA_UNDEFINED,
    RF_JINJA_NONE,
    RF_JINJA_BOOL,
    RF_JINJA_INT,
    RF_JINJA_FLOAT,
    RF_JINJA_STRING,
    RF_JINJA_LIST,
    RF_JINJA_DICT,
    RF_JINJA_LOOP,    /* the variable `loop` */
    RF_JINJA_CALLABLE /* a macro, or a function of the engine */
} rf_jinja_type;

typedef struct rf_jinja_node rf_jinja_node;
typedef struct rf_jinja_run rf_jinja_run;
typedef struct rf_jinja_list rf_jinja_list;
typedef struct rf_jinja_dict rf_jinja_dict;
typedef struct rf_jinja_loop rf_jinja_loop;
typedef struct rf_jinja_callable rf_jinja_callable;

typedef struct rf_jinja_value {
    rf_jinja_type type;
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            const char *bytes; /* of an undefined value: its name; not ended by a zero */
            size_t size;
        } string;
        rf_jinja_list *list;
        rf_jinja_dict *dict;
        const rf_jinja_loop *loop;
        const rf_jinja_callable *callable;
    } is;
} rf_jinja_value;

struct rf_jinja_list {
    rf_jinja_value *items;
    uint32_t count, room;
    bool tuple; /* which is written with round brackets */
};
typedef struct rf_jinja_entry {
    const char *name;
    size_t size;
    rf_jinja_value value;
} rf_jinja_entry;
struct rf_jinja_dict {
    rf_jinja_entry *entries;
    uint32_t count, room;
    bool is_namespace; /* whose attributes can be set */
};
struct rf_jinja_loop {
    const rf_jinja_list *list;
    uint32_t at;
};

/* A run of a template, in an arena of its own. */
struct rf_jinja_run {
    rf_arena arena;
    uint64_t steps, memory; /* that are left */
    uint32_t depth;         /* of what is evaluated or written within other things */
    uint32_t line;          /* of what is evaluated */
    rf_text_bytes *out;     /* what is written now: the result, or a text that becomes a value */
    bool captured;          /* the latter */
};

/* Fails with RF_ERROR_UNSUPPORTED when the run's bounds are reached. */
rf_result rf_jinja_step(rf_jinja_run *run, uint64_t steps);
void *rf_jinja_alloc(rf_jinja_run *run, size_t size); /* NULL + record, of which rf_jinja_alloc_failure() is the code */
rf_result rf_jinja_alloc_failure(void);
rf_result rf_jinja_enter(rf_jinja_run *run); /* one level deeper; rf_jinja_leave() ends it, also after failures */
static inline void rf_jinja_leave(rf_jinja_run *run)
{
    run->depth--;
}

static inline rf_jinja_value rf_jinja_none(void)
{
    return (rf_jinja_value){ .type = RF_JINJA_NONE };
}
static inline rf_jinja_value rf_jinja_bool(bool value)
{
    return (rf_jinja_value){ RF_JINJA_BOOL, { .boolean = value } };
}
static inline rf_jinja_value rf_jinja_int(int64_t value)
{
    return (rf_jinja_value){ RF_JINJA_INT, { .integer = value } };
}
static inline rf_jinja_value rf_jinja_string(const char *bytes, size_t size)
{
    return (rf_jinja_value){ RF_JINJA_STRING, { .string = { bytes, size } } };
}
static inline rf_jinja_value rf_jinja_undefined(const char *name, size_t size)
{
    return (rf_jinja_value){ RF_JINJA_UNDEFINED, { .string = { name, size } } };
}
/* Equal to a text that ends with a zero. */
bool rf_jinja_is_text(const rf_jinja_value *value, const char *text);
/* A copy of bytes that do not stay. */
rf_result rf_jinja_copy(rf_jinja_run *run, const char *bytes, size_t size, rf_jinja_value *out);

rf_result rf_jinja_list_new(rf_jinja_run *run, uint32_t room, rf_jinja_value *out);
rf_result rf_jinja_list_add(rf_jinja_run *run, rf_jinja_list *list, rf_jinja_value value);
rf_result rf_jinja_pair(rf_jinja_run *run, rf_jinja_value a, rf_jinja_value b, rf_jinja_value *out); /* a tuple */
rf_result rf_jinja_dict_new(rf_jinja_run *run, uint32_t room, rf_jinja_value *out);
rf_result rf_jinja_dict_set(rf_jinja_run *run, rf_jinja_dict *dict, const char *name, size_t size,
                            rf_jinja_value value);
/* NULL: it has no such member. */
const rf_jinja_value *rf_jinja_dict_find(rf_jinja_run *run, const rf_jinja_dict *dict, const char *name, size_t size);
rf_result rf_jinja_from_json(rf_jinja_run *run, const json_t *json, rf_jinja_value *out);

/* "a text", "an undefined value ('tools')": for messages; `room` has 96 bytes. */
const char *rf_jinja_describe(const rf_jinja_value *value, char *room);
bool rf_jinja_truth(const rf_jinja_value *value);
bool rf_jinja_is_number(const rf_jinja_value *value); /* booleans are */
double rf_jinja_number(const rf_jinja_value *value);
rf_result rf_jinja_equal(rf_jinja_run *run, const rf_jinja_value *a, const rf_jinja_value *b, bool *out);
/* -1, 0, 1; fails for what has no order. */
rf_result rf_jinja_compare(rf_jinja_run *run, const rf_jinja_value *a, const rf_jinja_value *b, int *out);
rf_result rf_jinja_contains(rf_jinja_run *run, const rf_jinja_value *whole, const rf_jinja_value *part, bool *out);
/* Lists what a loop goes through: items, members' names, characters; none of an undefined value. */
rf_result rf_jinja_iterate(rf_jinja_run *run, const rf_jinja_value *value, rf_jinja_value *out);
/* How many items, members or characters. */
rf_result rf_jinja_length(rf_jinja_run *run, const rf_jinja_value *value, int64_t *out);
/* value.name and value[key], undefined where there is none; a[begin:end:step], of which each may be undefined. */
rf_result rf_jinja_attribute(rf_jinja_run *run, const rf_jinja_value *value, const char *name, size_t size,
                             rf_jinja_value *out);
rf_result rf_jinja_item(rf_jinja_run *run, const rf_jinja_value *value, const rf_jinja_value *key, rf_jinja_value *out);
rf_result rf_jinja_slice(rf_jinja_run *run, const rf_jinja_value *value, const rf_jinja_value bounds[3],
                         rf_jinja_value *out);

/* ---- text of values ---- */

/* As Python's str(). */
rf_result rf_jinja_write(rf_jinja_run *run, const rf_jinja_value *value, rf_text_bytes *out);
rf_result rf_jinja_to_string(rf_jinja_run *run, const rf_jinja_value *value, rf_jinja_value *out);
/* As Python's json.dumps() without ASCII escapes; `indent` below 0: on one line. */
rf_result rf_jinja_to_json(rf_jinja_run *run, const rf_jinja_value *value, int indent, rf_jinja_value *out);

/* ---- functions of the engine ---- */

enum { RF_JINJA_ARGUMENTS = 6 };
typedef struct rf_jinja_arguments {
    rf_jinja_value items[RF_JINJA_ARGUMENTS];
    bool given[RF_JINJA_ARGUMENTS];
    const rf_jinja_dict *named; /* of functions that take any names */
    uint32_t count;
} rf_jinja_arguments;
/* A filter, a test, a method or a function. */
typedef struct rf_jinja_builtin {
    const char *name;
    rf_result (*call)(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                      rf_jinja_value *out);
    uint32_t least, most;    /* arguments with a place */
    bool any_name;           /* arguments of all other names go into `named` */
    const char *keywords[3]; /* names of the first arguments; NULL: none */
} rf_jinja_builtin;
const rf_jinja_builtin *rf_jinja_find_filter(const char *name, size_t size);
const rf_jinja_builtin *rf_jinja_find_test(const char *name, size_t size);
const rf_jinja_builtin *rf_jinja_find_method(rf_jinja_type of, const char *name, size_t size);
const rf_jinja_builtin *rf_jinja_find_function(const char *name, size_t size);
/* Checks the number of arguments, and calls. */
rf_result rf_jinja_call_builtin(rf_jinja_run *run, const rf_jinja_builtin *builtin, const rf_jinja_value *self,
                                const rf_jinja_arguments *arguments, rf_jinja_value *out);
/* The row of a table that ends with one without a name. */
const rf_jinja_builtin *rf_jinja_find_builtin(const rf_jinja_builtin *table, const char *name, size_t size);
/* Methods of texts that are filters, too, for which `self` may be anything that can be written. */
typedef rf_result rf_jinja_function(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                                    rf_jinja_value *out);
rf_jinja_function rf_jinja_strip, rf_jinja_upper, rf_jinja_lower, rf_jinja_capitalize, rf_jinja_title, rf_jinja_replace,
    rf_jinja_items;

/* ---- the tree ---- */

typedef enum rf_jinja_kind {
    RF_JINJA_CONSTANT,   /* value */
    RF_JINJA_NAME,       /* name */
    RF_JINJA_LIST_OF,    /* items in `list`; op 1: a tuple */
    RF_JINJA_DICT_OF,    /* names and values, one after the other, in `list` */
    RF_JINJA_ATTRIBUTE,  /* a.name */
    RF_JINJA_ITEM,       /* a[b] */
    RF_JINJA_SLICE,      /* a[b:c:d] */
    RF_JINJA_CALL,       /* a(list) */
    RF_JINJA_ARGUMENT,   /* in a list: name=a */
    RF_JINJA_FILTER,     /* a | builtin(list) */
    RF_JINJA_TEST,       /* a is builtin(list) */
    RF_JINJA_BINARY,     /* a op b */
    RF_JINJA_NEGATIVE,   /* -a */
    RF_JINJA_NOT,        /* not a */
    RF_JINJA_AND,        /* a and b */
    RF_JINJA_OR,         /* a or b */
    RF_JINJA_COMPARE,    /* a, then nodes (op, a) in `list` */
    RF_JINJA_CONDITION,  /* a if b else c */
    RF_JINJA_TEXT,       /* value */
    RF_JINJA_PRINT,      /* a */
    RF_JINJA_IF,         /* if a: list; else: others */
    RF_JINJA_FOR,        /* for a in b if c: list; else: others */
    RF_JINJA_SET,        /* a = b, or a = list */
    RF_JINJA_MACRO,      /* name, parameters (name, a) in `others`, list */
    RF_JINJA_GENERATION, /* list: what a model is to learn to say */
    RF_JINJA_BREAK,
    RF_JINJA_CONTINUE
} rf_jinja_kind;

/* Operators are their characters: '+', '<', ... and of two characters these. */
enum {
    RF_JINJA_EQUAL = 256,
    RF_JINJA_UNEQUAL,
    RF_JINJA_AT_MOST,
    RF_JINJA_AT_LEAST,
    RF_JINJA_FLOOR,
    RF_JINJA_IN,
    RF_JINJA_NOT_IN
};

struct rf_jinja_node {
    rf_jinja_kind kind;
    uint32_t line;
    int op;
    const char *name;
    size_t size; /* of the name */
    const rf_jinja_builtin *builtin;
    rf_jinja_value value;
    rf_jinja_node *a, *b, *c, *d;
    rf_jinja_node *list, *others;
    rf_jinja_node *next; /* in the list that it is in */
};
struct rf_jinja_callable {
    const rf_jinja_builtin *builtin; /* NULL: a macro */
    const rf_jinja_node *macro;
    struct rf_jinja_scope *scope; /* in which it was made */
};

typedef struct rf_jinja_template {
    rf_arena arena;
    char *source;
    rf_jinja_node *body;
    bool marks; /* it has the tag "generation" */
} rf_jinja_template;

/* Freed with rf_jinja_clear(), also when it fails. RF_ERROR_UNSUPPORTED names what is not known, RF_ERROR_CORRUPT_DATA
 * what is no Jinja. */
rf_result rf_jinja_parse(const char *text, size_t size, rf_jinja_template *out);
void rf_jinja_clear(rf_jinja_template *t);

/* ---- words of templates ---- */

typedef enum rf_jinja_word_type {
    RF_JINJA_WORD_END, /* of the template */
    RF_JINJA_WORD_TEXT,
    RF_JINJA_WORD_PRINT, /* "{{" */
    RF_JINJA_WORD_TAG,   /* "{%" */
    RF_JINJA_WORD_CLOSE, /* "}}" or "%}" */
    RF_JINJA_WORD_NAME,
    RF_JINJA_WORD_STRING, /* without quotes and escapes */
    RF_JINJA_WORD_INT,
    RF_JINJA_WORD_FLOAT,
    RF_JINJA_WORD_OPERATOR /* op */
} rf_jinja_word_type;
typedef struct rf_jinja_word {
    rf_jinja_word_type type;
    uint32_t line;
    int op;
    const char *bytes;
    size_t size;
    int64_t integer;
    double number;
} rf_jinja_word;
typedef struct rf_jinja_words {
    rf_arena *arena;
    const char *text;
    size_t size, at;
    uint32_t line;
    int inside;      /* 0: text; else '%' or '{', by which the word list began */
    uint32_t nested; /* brackets that are open */
    bool strip;      /* white space that follows */
    bool trim;       /* a line feed that follows */
    bool fresh;      /* what came last ended in a line feed, or nothing came */
} rf_jinja_words;
rf_result rf_jinja_next_word(rf_jinja_words *words, rf_jinja_word *out);

/* ---- running ---- */

typedef struct rf_jinja_span {
    size_t begin, end;
} rf_jinja_span;
typedef struct rf_jinja_result {
    rf_text_bytes text;
    struct {
        rf_jinja_span *items;
        uint32_t count, capacity;
    } spans; /* of the tag "generation" */
} rf_jinja_result;
/* `globals` are the template's variables; `run` was begun with rf_jinja_begin(). */
rf_result rf_jinja_render(const rf_jinja_template *t, rf_jinja_run *run, const rf_jinja_dict *globals,
                          rf_jinja_result *out);
void rf_jinja_result_free(rf_jinja_result *result);
void rf_jinja_begin(rf_jinja_run *run, size_t input_size);
void rf_jinja_end(rf_jinja_run *run);

#endif
