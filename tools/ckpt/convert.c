/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire ckpt verify and convert */
#include <stdio.h>

#include "ckpt/ckpt.h"
#include "commands.h"
#include "json_output.h"
#include "printable.h"

/* safetensors files have no checksums: what can be checked is that the header fits the bytes. */
int ckpt_verify(const ckpt_options *o)
{
    input in;
    rf_result r = input_open(o->paths[0], &in);
    if (r >= 0 && in.archive) r = rf_archive_verify(in.archive);
    const bool good = r >= 0;
    json_t *document = json_pack("{s:o,s:b}", "file", json_text(o->paths[0]), "good", good);
    if (good) json_object_set_new(document, "kind", json_text(input_kind(&in)));
    if (!good) json_object_set_new(document, "problem", json_text(rf_error_message()));
    if (!good)
        (void)command_fail();
    else if (!json_replaces_text(o->json_path))
        printf("%s: good\n", o->paths[0]);
    input_close(&in);
    return !json_write(o->json_path, document) ? CODE_FAILED : good ? CODE_OK : CODE_NO;
}

static int report_conversion(const ckpt_options *o, const input *in)
{
    const bool text = !json_replaces_text(o->json_path);
    json_t *left_out = json_array();
    if (text) printf("%s: %llu tensors\n", o->paths[1], (unsigned long long)in->count);
    for (uint64_t i = 0; i < in->num_values; i++) {
        const char *name = rf_archive_value_name(in->archive, i);
        json_array_append_new(left_out, json_text(name));
        if (!text) continue;
        fputs(i ? ", " : "left out, because safetensors files hold tensors only: ", stdout);
        print_printable(stdout, name, 0);
        if (i + 1 == in->num_values) putchar('\n');
    }
    json_t *document = json_pack("{s:o,s:o,s:I,s:o}", "from", json_text(o->paths[0]), "to", json_text(o->paths[1]),
                                 "tensors", (json_int_t)in->count, "left_out", left_out);
    return json_write(o->json_path, document) ? CODE_OK : CODE_FAILED;
}

int ckpt_convert(const ckpt_options *o)
{
    input in;
    const char *from = o->paths[0], *to = o->paths[1];
    if (is_safetensors(from) == is_safetensors(to)) {
        fprintf(stderr, "ringfire ckpt: '%s' and '%s': one of them must be called *.safetensors, the other one not\n",
                from, to);
        return CODE_USAGE;
    }
    rf_result r = input_open(from, &in);
    if (r >= 0)
        r = in.file ? rf_archive_from_safetensors(in.file, to, NULL) : rf_safetensors_from_archive(in.archive, to);
    const int code = r < 0 ? command_fail() : report_conversion(o, &in);
    input_close(&in);
    return code;
}
