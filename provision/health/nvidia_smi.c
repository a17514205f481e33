#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

/* One row per value both forms print: path below <gpu> in the XML, group and key in the text. */
const struct rk_gpu_field rk_gpu_fields[] = {
	{ "product_name", "", "Product Name", "gpu.name", false },
	{ "serial", "", "Serial Number", "gpu.serial", false },
	{ "uuid", "", "GPU UUID", "gpu.uuid", false },
	{ "platformInfo/slot_number", "Platform Info", "Slot Number", "gpu.slot", true },
	{ "platformInfo/tray_index", "Platform Info", "Tray Index", "gpu.tray_index", true },
	{ "platformInfo/module_id", "Platform Info", "Module Id", "gpu.module_id", true },
	{ "platformInfo/chassis_serial_number", "Platform Info", "Chassis Serial Number", "gpu.chassis", false },
	{ "platformInfo/gpu_fabric_guid", "Platform Info", "GPU Fabric GUID", "gpu.fabric.guid", false },
	{ "gpu_recovery_action", "", "GPU Recovery Action", "gpu.recovery", false },
	{ "pci/pci_device_id", "PCI", "Device Id", "gpu.pci_id", false },
	{ "pci/pci_bus_id", "PCI", "Bus Id", "gpu.pci", false },
	{ "pci/pci_gpu_link_info/link_widths/current_link_width", "Link Width", "Current", "gpu.pcie.width", true },
	{ "clocks_event_reasons/clocks_event_reason_hw_slowdown", "Clocks Event Reasons", "HW Slowdown", "gpu.throttle.hw", false },
	{ "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown", "HW Slowdown", "HW Thermal Slowdown", "gpu.throttle.thermal", false },
	{ "clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown", "HW Slowdown", "HW Power Brake Slowdown",
	  "gpu.throttle.power_brake", false },
	{ "fb_memory_usage/total", "FB Memory Usage", "Total", "gpu.memory_mib", true },
	{ "ecc_mode/current_ecc", "ECC Mode", "Current", "gpu.ecc.mode", false },
	{ "ecc_errors/volatile/sram_uncorrectable_parity", "Volatile", "SRAM Uncorrectable Parity", "gpu.ecc.sram_parity", true },
	{ "ecc_errors/volatile/sram_uncorrectable_secded", "Volatile", "SRAM Uncorrectable SEC-DED", "gpu.ecc.sram_secded", true },
	{ "ecc_errors/volatile/dram_uncorrectable", "Volatile", "DRAM Uncorrectable", "gpu.ecc.dram", true },
	{ "ecc_errors/aggregate/sram_threshold_exceeded", "Aggregate", "SRAM Threshold Exceeded", "gpu.ecc.threshold", false },
	{ "ecc_errors/channel_repair_pending", "ECC Errors", "Channel Repair Pending", "gpu.ecc.channel_repair", false },
	{ "ecc_errors/tpc_repair_pending", "ECC Errors", "TPC Repair Pending", "gpu.ecc.tpc_repair", false },
	{ "ecc_errors/unrepairable_memory", "ECC Errors", "Unrepairable Memory", "gpu.ecc.unrepairable", false },
	{ "remapped_rows/remapped_row_pending", "Remapped Rows", "Pending", "gpu.remap.pending", false },
	{ "remapped_rows/remapped_row_failure", "Remapped Rows", "Remapping Failure Occurred", "gpu.remap.failure", false },
	{ "temperature/gpu_temp", "Temperature", "GPU Current Temp", "gpu.temperature", true },
	{ "gpu_power_readings/average_power_draw", "GPU Power Readings", "Average Power Draw", "gpu.power", true },
	{ "fabric/state", "Fabric", "State", "gpu.fabric.state", false },
	{ "fabric/status", "Fabric", "Status", "gpu.fabric.status", false },
	{ "fabric/cliqueId", "Fabric", "CliqueId", "gpu.fabric.clique", true },
	{ "fabric/clusterUuid", "Fabric", "ClusterUUID", "gpu.fabric.uuid", false },
	{ "fabric/health/summary", "Health", "Summary", "gpu.fabric.summary", false },
	{ "fabric/health/bandwidth", "Health", "Bandwidth", "gpu.fabric.bandwidth", false },
	{ "fabric/health/route_recovery_in_progress", "Health", "Route Recovery in progress", "gpu.fabric.route_recovery", false },
	{ "fabric/health/route_unhealthy", "Health", "Route Unhealthy", "gpu.fabric.route_unhealthy", false },
	{ "fabric/health/access_timeout_recovery", "Health", "Access Timeout Recovery", "gpu.fabric.access_timeout", false },
	{ "fabric/health/incorrect_configuration", "Health", "Incorrect Configuration", "gpu.fabric.configuration", false },
	{ "fabric/health/partition_assigned", "Health", "Partition Assigned", "gpu.fabric.partition_assigned", false },
};
const size_t rk_gpu_fields_n = RK_ARRAY_SIZE(rk_gpu_fields);

void rk_gpu_field_set(struct rk_metrics *m, int gpu, const struct rk_gpu_field *field, const char *text)
{
	const char *label = rk_labelf(m, "gpu=%d", gpu);

	/* "Unknown Error" is a value of the fabric status, and None the good value of two rows. */
	if (strcmp(field->metric, "gpu.fabric.status") == 0 && strcmp(text, "Unknown Error") == 0)
		rk_metric_text(m, field->metric, label, text);
	else if (strcmp(field->metric, "gpu.pci_id") == 0 && strlen(text) >= 8)
		rk_metric_text(m, field->metric, label, rk_labelf(m, "%.4s", rk_starts_with(text, "0x") ? text + 2 : text));
	else
		rk_metric_value(m, field->metric, label, text, field->number);
}

void rk_gpu_lost(struct rk_metrics *m, int gpu, bool lost, const char *missing)
{
	const char *label = rk_labelf(m, "gpu=%d", gpu);

	if (!lost && strcmp(missing, "truncated") == 0)
		rk_metric_absent(m, "gpu.lost", label, missing);
	else
		rk_metric_number(m, "gpu.lost", label, lost);
}

/* What nvidia-smi prints instead of a report. `count`: the driver answered and there is none. */
static const struct {
	const char *text, *metric_text;
	bool none;
} errors[] = {
	{ "No devices were found", "no devices were found", true },
	{ "couldn't communicate with the NVIDIA driver", "the driver does not answer", true },
	{ "Driver/library version mismatch", "driver and library versions differ", true },
	{ "Unable to determine the device handle", "a GPU fell off the bus", false },
	{ "GPU is lost", "a GPU is lost", false },
};

bool rk_nvidia_smi_error(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	const char *streams[] = { rk_clean(ret->arena, evidence->out, evidence->out_len < 4096 ? evidence->out_len : 4096),
				  rk_clean(ret->arena, evidence->err, evidence->err_len < 4096 ? evidence->err_len : 4096) };

	for (size_t s = 0; s < RK_ARRAY_SIZE(streams); s++) {
		for (size_t i = 0; i < RK_ARRAY_SIZE(errors); i++) {
			if (!strstr(streams[s], errors[i].text))
				continue;
			rk_metric_text(ret, "gpu.error", "", errors[i].metric_text);
			if (errors[i].none)
				rk_metric_number(ret, "gpu.count", "", 0);
			return true;
		}
	}
	return false;
}
