#include "provision/drivers/scrub.h"

#include <string.h>

#include "provision/ssh.h"

enum { SCRUB_MS = 900000, DEVICES_MAX = 32 };

/* Arguments: "nvme ADDRESS" or "reset ADDRESS" pairs. One line "ok ADDRESS" per device that is really done; everything else is a reason.
 * A drive reads back as zeros after an erase; a device is looked up by address, never by a name that another boot gives differently. */
static const char script[] =
	"erase() {\n"
	" d=/sys/bus/pci/devices/$1\n"
	" [ -d \"$d\" ] || { echo \"fail $1 no such device\"; return; }\n"
	" [ -e \"$d/driver\" ] || echo \"$1\" > /sys/bus/pci/drivers_probe\n"
	" n=0\n"
	" for b in \"$d\"/nvme/nvme*/nvme*n*; do\n"
	"  [ -e \"$b\" ] || continue\n"
	"  dev=/dev/${b##*/}\n"
	"  nvme format \"$dev\" -s 2 -f >/dev/null 2>&1 || nvme format \"$dev\" -s 1 -f >/dev/null 2>&1 || { echo \"fail $1 format refused\"; return; }\n"
	"  blockdev --flushbufs \"$dev\" && [ \"$(dd if=\"$dev\" bs=1M count=16 iflag=direct 2>/dev/null | wc -c)\" = 16777216 ] &&\n"
	"   [ \"$(dd if=\"$dev\" bs=1M count=16 iflag=direct 2>/dev/null | tr -d '\\000' | wc -c)\" = 0 ] || { echo \"fail $1 data is still there\"; return; }\n"
	"  n=$((n+1))\n"
	" done\n"
	" if [ $n -gt 0 ]; then echo \"ok $1\"; else echo \"fail $1 no namespace\"; fi\n"
	"}\n"
	"again() {\n"
	" d=/sys/bus/pci/devices/$1\n"
	" if [ -w \"$d/reset\" ] && echo 1 > \"$d/reset\"; then echo \"ok $1\"; else echo \"fail $1 reset refused\"; fi\n"
	"}\n"
	"while [ $# -gt 1 ]; do case $1 in nvme) erase \"$2\" ;; reset) again \"$2\" ;; esac; shift 2; done 2>/dev/null\n";

/* Every device must have answered ok. */
static int judge(const struct rk_tray *tray, const char *out, const char *const *devices, size_t n, struct rk_err *err)
{
	for (size_t i = 0; i < n; i += 2) {
		char *ok RK_CLEANUP_FREE = rk_xasprintf("ok %s\n", devices[i + 1]);
		const char *at = strstr(out, ok);
		if (at && (at == out || at[-1] == '\n'))
			continue;
		char *fail RK_CLEANUP_FREE = rk_xasprintf("fail %s ", devices[i + 1]);
		const char *why = strstr(out, fail);
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		if (why)
			rk_str_add_escaped(&text, why + strlen(fail), strcspn(why + strlen(fail), "\n"));
		return rk_err_set(err, why ? RK_FAILED : RK_UNREACHABLE, "tray \"%s\": %s of %s: %s", tray->name,
				  rk_streq(devices[i], "nvme") ? "erase" : "reset", devices[i + 1], why ? rk_str_text(&text) : "no answer, not known");
	}
	return 0;
}

static size_t list_devices(const struct rk_site *site, const struct rk_tray *tray, const char **ret)
{
	size_t n = 0;

	for (int i = 0; i < tray->n_nvme && n + 2 <= DEVICES_MAX; i++) {
		ret[n++] = "nvme";
		ret[n++] = tray->nvme[i];
	}
	for (int i = 0; i < tray->n_gpus + tray->n_hcas && n + 2 <= DEVICES_MAX; i++) {
		const char *pci = i < tray->n_gpus ? site->gpus[tray->first_gpu + i].pci : site->hcas[tray->first_hca + i - tray->n_gpus].pci;
		if (!pci)
			continue;
		ret[n++] = "reset";
		ret[n++] = pci;
	}
	return n;
}

int rk_scrub(const struct rk_driver_env *env, int index, struct rk_err *err)
{
	const struct rk_tray *tray = &env->site->trays[index];
	const char *argv[4 + DEVICES_MAX + 1] = { "sh", "-c", script, "racksh" };
	struct rk_ssh_target target = { .host = tray->ssh_host && *tray->ssh_host ? tray->ssh_host : tray->name, .port = tray->ssh.port, .user = tray->ssh.user,
					.known_hosts = tray->ssh.known_hosts, .identity_file = tray->ssh.identity_file,
					.jump = tray->ssh.jump };
	struct rk_ssh_limits limits = { .command_ms = SCRUB_MS, .idle_ms = SCRUB_MS };
	struct rk_ssh_result result;
	struct rk_ssh *ssh;

	if (env->read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is erased on tray \"%s\"", tray->name);
	if (tray->n_nvme == 0) {
		rk_err_set(err, RK_FAILED, "tray \"%s\": the addresses of its local drives are not known, so they cannot be erased", tray->name);
		rk_err_hint(err, "write them as \"nvme\" in the site file, or run site discover");
		return RK_FAILED;
	}
	size_t n = list_devices(env->site, tray, argv + 4);
	int rc = rk_ssh_open(&target, &limits, env->trace, env->cancel, &ssh, err);
	if (rc != 0)
		return rc;
	rc = rk_ssh_run(ssh, argv, NULL, 0, &result, err);
	if (rc == 0)
		rc = judge(tray, rk_str_text(&result.out), argv + 4, n, err);
	rk_ssh_result_clear(&result);
	rk_ssh_close(ssh);
	return rc;
}
