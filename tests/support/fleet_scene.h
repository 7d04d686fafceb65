/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of several machines that request programs, and share a server. Each machine is
 * represented by a directory. The requests are complete ones, of contexts of programs.
 */
#pragma once

#include "support/fleet_server.h"
#include "support/program_scene.h"
#include "support/store_scene.h"

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/child.h"

static struct {
    const fleet_server *server;
    char scratch[SCRATCH_DIRECTORY_SIZE];
    /* The ports at which machine 0 and the other machines reach the server. 0: the server's own. */
    unsigned port_of_first, port_of_others;
} fleet;

/* Returns false if there is no such server. */
static inline bool fleet_init(const char *library, const char *server, const char *swift_script)
{
    fleet.server = fleet_server_named(server);
    if (!fleet.server) {
        return false;
    }
    fleet.server->require();
    fleet_swift_script = swift_script;
    kilni_remote_set_library(library);
    kilni_remote_set_runtime_folder("/nonexistent");
    return true;
}

static inline bool fleet_start(void)
{
    scratch_make(fleet.scratch);
    return fleet.server->start(fleet.scratch);
}

static inline void fleet_stop(void)
{
    fleet.server->stop();
    scratch_remove(fleet.scratch);
}

static inline kiln_store *fleet_open_machine(unsigned machine)
{
    char location[3 * SCRATCH_PATH_SIZE];
    kiln_store *store = NULL;
    unsigned port = machine == 0 ? fleet.port_of_first : fleet.port_of_others;
    if (port == 0 && fleet.server->port) {
        port = fleet.server->port();
    }
    const int length =
        snprintf(location, sizeof location, "%s/machine-%u|", fleet.scratch, machine);
    fleet.server->locate(location + length, sizeof location - (size_t)length, port);
    CHECK(kiln_store_open(location, NULL, &store, NULL) == KILN_OK);
    return store;
}

/* Gets a program, and checks that it is the right one. Returns where it came from. */
static inline uint32_t fleet_obtain(unsigned number, unsigned machine,
                                    void (*while_building)(void *user), void *user)
{
    kiln_store *store = fleet_open_machine(machine);
    program_scene s;
    char text[32];
    memset(&s, 0, sizeof s);
    program_scene_init(&s);
    s.params.store = store;
    s.devices[0].text = "a device of the fleet";
    s.devices[0].while_building = while_building;
    s.devices[0].user = user;
    CHECK(kiln_program_context_new(&s.params, &s.context) == KILN_OK);
    snprintf(text, sizeof text, "program %u", number);
    const kiln_program_desc_params params = image_of(text);
    kiln_program_desc *desc = NULL;
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    CHECK(kiln_program_desc_new(s.context, &params, &desc, NULL) == KILN_OK);
    CHECK(kiln_program_get(desc, &program, &result, NULL) == KILN_OK);
    const scripted_program *made = kiln_program_handle(program);
    const uint64_t without_options = scripted_value(0, text, strlen(text));
    CHECK(made->value == scripted_value(without_options, "", 0));
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
    CHECK(program_scene_close(&s));
    kiln_store_close(&store);
    return result.from;
}
