// Formats times and amounts.

const UNITS = [["d", 86400], ["h", 3600], ["m", 60]];

export function duration(seconds) {
  if (seconds < 0) return "0s";
  if (seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 10) return `${Math.round(seconds * 10) / 10}s`;
  if (seconds < 120) return `${Math.floor(seconds)}s`;
  for (const [unit, size] of UNITS) {
    if (seconds < size * (unit === "m" ? 10 : 3)) continue;
    return `${Math.floor(seconds / size)}${unit}`;
  }
  return `${Math.floor(seconds / 60)}m${Math.floor(seconds % 60)}s`;
}

export function age(since) {
  if (!since) return "";
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(since)) / 1000));
  return duration(seconds).replace("ms", "s");
}

export function clockTime(at) {
  const date = new Date(at);
  const text = date.toLocaleTimeString([], { hour12: false });
  return date.toDateString() === new Date().toDateString() ? text : `${date.toLocaleDateString()} ${text}`;
}

export function bytes(count) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (count >= 1024 && place < names.length - 1) {
    count /= 1024;
    place += 1;
  }
  return `${count >= 100 || place === 0 ? Math.round(count) : count.toFixed(1)} ${names[place]}`;
}

export function cores(milli) {
  return milli >= 1000 ? `${(milli / 1000).toFixed(2)} cores` : `${milli >= 10 ? Math.round(milli) : milli.toFixed(1)} m`;
}

export function quantity(text) {
  const found = /^(\d+)(Ki|Mi|Gi)?$/.exec(text || "");
  if (!found) return text || "";
  return bytes(Number(found[1]) * ({ Ki: 1024, Mi: 1048576, Gi: 1073741824 }[found[2]] || 1));
}
