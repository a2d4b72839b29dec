/* Runs a compiled program in a browser through WebGPU.

     const model = await open('model.weft', {onprogress: ({stage, done, total}) => {}});
     const {y} = await model.run({x: {shape: [2, 3], data: new Float32Array(6)}});

   The artifact (base/artifact.h) is read as it arrives: weights go to the GPU piece by piece and are never whole in
   memory, kernels compile meanwhile. `load` takes the parts instead: the program's JSON (base/program_write.c), the code
   image's JSON (codegen/webgpu/target.c), weights as Uint8Array. Data travels as bytes: any typed array in, Uint8Array
   out, with dtype and shape; `values` turns an output into numbers.
   Every buffer that is no view has memory of its own; TEMP buffers whose lifetimes are apart share it. A dispatch may not
   see one GPU buffer both as read and as written, nor at an unaligned offset: such bindings go through a copy.
   Errors throw; after `device.lost` a program must be loaded again. */

const AXIS_LIMIT = 65535;
const words = (bytes) => Math.max(4, Math.ceil(bytes / 4) * 4);

/* -- extents: base/dim_print.c has the grammar */

function compileExtent(text, symbols) {
  if (typeof text === 'number') return () => text;
  let at = 0;
  const fail = (what) => { throw new Error(`extent "${text}": ${what} at offset ${at}`); };
  const take = (token) => text.startsWith(token, at) && ((at += token.length), true);
  const symbol = (name) => {
    const index = symbols.findIndex((s) => s.name === name);
    if (index < 0) fail('unknown symbol');
    return (values) => {
      if (values[index] === undefined) throw new Error(`extent ${name} is not known yet`);
      return values[index];
    };
  };
  const pair = (make) => {
    if (!take('(')) fail('expected (');
    const a = sum();
    if (!take(',')) fail('expected ,');
    const b = sum();
    if (!take(')')) fail('expected )');
    return (v) => make(a(v), b(v));
  };
  function factor() {
    let match = /^\d+/.exec(text.slice(at));
    if (match) {
      at += match[0].length;
      const value = Number(match[0]);
      return () => value;
    }
    match = /^"(?:[^"\\]|\\.)*"/.exec(text.slice(at));
    if (match) {
      at += match[0].length;
      return symbol(JSON.parse(match[0]));
    }
    match = /^[A-Za-z_][A-Za-z_0-9.]*/.exec(text.slice(at));
    if (match) {
      at += match[0].length;
      if (match[0] === 'min') return pair(Math.min);
      if (match[0] === 'max') return pair(Math.max);
      return symbol(match[0]);
    }
    if (take('-')) {
      const a = factor();
      return (v) => -a(v);
    }
    if (!take('(')) fail('unexpected text');
    const inner = sum();
    if (!take(')')) fail('expected )');
    return inner;
  }
  function product() {
    let left = factor();
    for (;;) {
      const a = left;
      if (take('*')) {
        const b = factor();
        left = (v) => a(v) * b(v);
      } else if (take('//')) {
        const b = factor();
        left = (v) => Math.floor(a(v) / b(v));
      } else if (take('%')) {
        const b = factor();
        left = (v) => a(v) - Math.floor(a(v) / b(v)) * b(v);
      } else return left;
    }
  }
  function sum() {
    let left = product();
    for (;;) {
      const a = left;
      if (take('+')) {
        const b = product();
        left = (v) => a(v) + b(v);
      } else if (take('-')) {
        const b = product();
        left = (v) => a(v) - b(v);
      } else return left;
    }
  }
  const result = sum();
  if (at !== text.length) fail('unexpected text');
  return (values) => {
    const value = result(values);
    if (!Number.isSafeInteger(value)) throw new Error(`extent "${text}" overflows`);
    return value;
  };
}

const relations = {'==': (a, b) => a === b, '!=': (a, b) => a !== b, '<': (a, b) => a < b, '<=': (a, b) => a <= b};

/* -- the artifact: entries of a stored ZIP in the order they come */

const crcTable = Uint32Array.from({length: 256}, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

class Entries {
  constructor(reader, onbytes) {
    this.reader = reader;
    this.onbytes = onbytes;
    this.chunk = new Uint8Array(0);
    this.left = 0; /* of the present entry */
    this.crc = 0;
  }

  /* Exactly `count` bytes of the file. */
  async take(count) {
    const parts = [];
    for (let missing = count; missing > 0;) {
      if (!this.chunk.length) {
        const {done, value} = await this.reader.read();
        if (done) throw new Error('the file ends too early');
        this.onbytes(value.length);
        this.chunk = value;
      }
      const part = this.chunk.subarray(0, missing);
      this.chunk = this.chunk.subarray(part.length);
      missing -= part.length;
      parts.push(part);
    }
    if (parts.length === 1) return parts[0];
    const whole = new Uint8Array(count);
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /* Bytes of the present entry; its end checks it. */
  async read(count) {
    if (count > this.left) throw new Error(`${this.name} ends too early`);
    const bytes = await this.take(count);
    let crc = ~this.crc;
    for (let i = 0; i < bytes.length; i++) crc = crcTable[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
    this.crc = ~crc;
    this.left -= count;
    if (!this.left && this.crc >>> 0 !== this.wanted) throw new Error(`${this.name} is damaged`);
    return bytes;
  }

  async skip(count = this.left) {
    for (; count > 0; count -= Math.min(count, 1 << 20)) await this.read(Math.min(count, 1 << 20));
  }

  async text() {
    return new TextDecoder().decode(await this.read(this.left));
  }

  /* The name of the next entry, null behind the last. Zeros may lie between them. */
  async next() {
    await this.skip();
    let first;
    do first = (await this.take(1))[0]; while (first === 0);
    const head = new Uint8Array(30);
    head[0] = first;
    head.set(await this.take(29), 1);
    const view = new DataView(head.buffer), mark = view.getUint32(0, true);
    if (mark === 0x02014b50) return null;
    if (mark !== 0x04034b50 || view.getUint16(6, true) & 8 || view.getUint16(8, true)) throw new Error('this is no artifact of Weft');
    this.wanted = view.getUint32(14, true);
    this.left = view.getUint32(22, true);
    this.crc = 0;
    this.name = new TextDecoder().decode(await this.take(view.getUint16(26, true)));
    const bytes = await this.take(view.getUint16(28, true)), extra = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let at = 0; at + 4 <= bytes.length; at += 4 + extra.getUint16(at + 2, true))
      if (extra.getUint16(at, true) === 1 && this.left === 0xffffffff) this.left = Number(extra.getBigUint64(at + 4, true));
    return this.name;
  }
}

/* The same interface over bytes that are there. */
class Memory {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  async read(count) {
    if (this.at + count > this.bytes.length) throw new Error('the weights end too early');
    return this.bytes.subarray(this.at, (this.at += count));
  }

  async skip(count) {
    this.at += count;
  }
}

/* -- loading */

async function makeKernel(device, kernel) {
  const module = device.createShaderModule({label: kernel.name, code: kernel.code});
  const info = await module.getCompilationInfo();
  const errors = info.messages.filter((m) => m.type === 'error');
  if (errors.length) throw new Error(`kernel ${kernel.name}: line ${errors[0].lineNum}: ${errors[0].message}`);
  const types = {read: 'read-only-storage', read_write: 'storage'};
  const entries = [];
  kernel.buffers.forEach((access, binding) => {
    if (types[access]) entries.push({binding, visibility: GPUShaderStage.COMPUTE, buffer: {type: types[access]}});
  });
  entries.push({binding: kernel.buffers.length, visibility: GPUShaderStage.COMPUTE, buffer: {type: 'uniform'}});
  const layout = device.createBindGroupLayout({entries});
  const pipeline = await device.createComputePipelineAsync({
    label: kernel.name,
    layout: device.createPipelineLayout({bindGroupLayouts: [layout]}),
    compute: {module, entryPoint: 'main'},
  });
  return {name: kernel.name, access: kernel.buffers, layout, pipeline};
}

async function readBytes(device, buffer, offset, bytes) {
  const from = offset & ~3, size = words(bytes + offset - from);
  const staging = device.createBuffer({size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST});
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, from, staging, 0, Math.min(size, buffer.size - from));
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const copy = new Uint8Array(staging.getMappedRange().slice(offset - from, offset - from + bytes));
  staging.destroy();
  return copy;
}

export class Model {
  constructor(program, device) {
    this.program = program;
    this.device = device;
    this.kernels = [];
    this.memory = new Map(); /* buffer number -> GPUBuffer, of this program's lifetime */
    this.uniforms = new Map();
    this.extents = new Map();
    this.temps = null; /* {key, memory}: of the last extents */
    this.scratch = [];
    this.busy = Promise.resolve();
    this.lost = null; /* why the device is gone */
    device.lost.then((info) => (this.lost = info.message || info.reason));
  }

  extent(text, values) {
    let compiled = this.extents.get(text);
    if (!compiled) this.extents.set(text, (compiled = compileExtent(text, this.program.symbols)));
    return compiled(values);
  }

  holds(condition, values) {
    return relations[condition[1]](this.extent(condition[0], values), this.extent(condition[2], values));
  }

  create(number, bytes) {
    const limit = Math.min(this.device.limits.maxStorageBufferBindingSize, this.device.limits.maxBufferSize);
    const name = this.program.buffers[number].name ?? `buffer ${number}`;
    if (words(bytes) > limit) throw new Error(`${name} takes ${bytes} bytes, this device allows ${limit}`);
    return this.device.createBuffer({
      label: name,
      size: words(bytes),
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    });
  }

  /* at: a multiple of 4 */
  write(buffer, data, at = 0) {
    const bytes = data instanceof ArrayBuffer ? new Uint8Array(data)
                                              : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const whole = bytes.length & ~3;
    if (whole) this.device.queue.writeBuffer(buffer, at, bytes, 0, whole);
    if (whole === bytes.length) return;
    const rest = new Uint8Array(4);
    rest.set(bytes.subarray(whole));
    this.device.queue.writeBuffer(buffer, at + whole, rest);
  }

  /* Kernels compile side by side. */
  async compile(image, onprogress) {
    if (this.program.format !== 1 || image.format !== 1) throw new Error('this program has a format of another version');
    if (this.program.target !== 'webgpu') throw new Error(`this program is for ${this.program.target}`);
    if (image.kernels.length !== this.program.kernels.length) throw new Error('program and code do not belong together');
    let done = 0;
    const total = image.kernels.length;
    this.kernels = await Promise.all(image.kernels.map(async (kernel) => {
      const made = await makeKernel(this.device, kernel);
      onprogress?.({stage: 'kernels', done: ++done, total});
      return made;
    }));
  }

  /* Memory of the program's lifetime. Constants in the order of their offsets, equal ones at one offset; from: read and
     skip of the weights. */
  async place(from) {
    const places = new Map(), empty = this.known();
    this.program.buffers.forEach((buffer, number) => {
      const offset = buffer.offset ?? 0;
      const initial = buffer.kind === 'constant' || (buffer.kind === 'state' && offset !== '?');
      if (!initial && buffer.kind !== 'persistent' && buffer.kind !== 'state') return;
      const bytes = this.extent(buffer.bytes, empty), gpu = this.create(number, bytes);
      this.memory.set(number, gpu);
      if (initial && bytes) places.set(offset, [...(places.get(offset) ?? []), {gpu, bytes}]);
    });
    let at = 0;
    for (const offset of [...places.keys()].sort((a, b) => a - b)) {
      const end = Math.max(...places.get(offset).map(({bytes}) => offset + bytes));
      if (offset < at) throw new Error('constants overlap');
      await from.skip(offset - at);
      for (at = offset; at < end;) {
        const piece = await from.read(Math.min(end - at, 1 << 20));
        for (const {gpu, bytes} of places.get(offset))
          if (bytes > at - offset) this.write(gpu, piece.subarray(0, offset + bytes - at), at - offset);
        at += piece.length;
      }
    }
  }

  /* Values of the symbols before any input. */
  known() {
    return this.program.symbols.map((s) => (s.origin === 'data' ? s.maximum : undefined));
  }

  /* The load region packs weights. */
  async start() {
    const run = new Run(this, this.known(), this.memory);
    await run.region(0);
    await run.flush();
  }

  /* Symbols from the shapes of the inputs; what they claim is checked. */
  bind(inputs) {
    const {symbols, guards} = this.program;
    const values = this.known();
    for (const port of this.program.inputs) {
      const given = inputs[port.name];
      if (!given) throw new Error(`input ${port.name} is missing`);
      if (given.shape.length !== port.shape.length)
        throw new Error(`input ${port.name} has rank ${given.shape.length}, ${port.shape.length} is wanted`);
      port.shape.forEach((text, axis) => {
        const index = symbols.findIndex((s) => s.name === text || JSON.stringify(s.name) === text);
        if (index >= 0 && values[index] === undefined) values[index] = given.shape[axis];
      });
    }
    for (const port of this.program.inputs)
      port.shape.forEach((text, axis) => {
        const wanted = this.extent(text, values), given = inputs[port.name].shape[axis];
        if (wanted !== given) throw new Error(`input ${port.name}: axis ${axis} has ${given} elements, ${wanted} are wanted`);
      });
    symbols.forEach((s, i) => {
      const value = values[i];
      if (value !== undefined && (value < s.minimum || value > s.maximum || value % (s.divisor || 1)))
        throw new Error(`extent ${s.name} = ${value} is outside of what the program takes`);
    });
    for (const guard of guards)
      if (!this.holds(guard.condition, values))
        throw new Error(`the program does not take these shapes: ${guard.condition.join(' ')} (${guard.location})`);
    return values;
  }

  /* Memory of one call; kept while the extents stay. */
  prepare(values) {
    const key = JSON.stringify(values);
    if (this.temps?.key === key) return this.temps.memory;
    this.temps?.memory.forEach((buffer, number) => this.memory.has(number) || buffer.destroy());
    const memory = new Map(this.memory), free = [];
    const temps = [];
    this.program.buffers.forEach((buffer, number) => {
      if (buffer.kind === 'temp') temps.push({number, buffer, bytes: this.extent(buffer.bytes, values)});
      if (buffer.kind === 'input' || buffer.kind === 'output')
        memory.set(number, this.create(number, this.extent(buffer.bytes, values)));
    });
    temps.sort((a, b) => a.buffer.first - b.buffer.first || b.bytes - a.bytes);
    for (const {number, buffer, bytes} of temps) {
      let best = null;
      for (const slot of free)
        if (slot.last < buffer.first && slot.gpu.size >= words(bytes) && (!best || slot.gpu.size < best.gpu.size)) best = slot;
      if (best) best.last = buffer.last;
      else free.push((best = {gpu: this.create(number, bytes), last: buffer.last}));
      memory.set(number, best.gpu);
    }
    this.temps = {key, memory};
    return memory;
  }

  /* inputs: {name: {shape, data}}; returns {name: {dtype, shape, data: Uint8Array}}. Calls run one after the other. */
  run(inputs) {
    const result = this.busy.then(() => this.runUnlessLost(inputs));
    this.busy = result.catch(() => {});
    return result;
  }

  /* Whatever a lost device makes of a call, the loss is what is reported. */
  async runUnlessLost(inputs) {
    const lost = () => new Error(`the device was lost (${this.lost}): load the program again`);
    if (this.lost !== null) throw lost();
    try {
      return await this.runNow(inputs);
    } catch (error) {
      await Promise.race([this.device.lost, new Promise((resolve) => setTimeout(resolve, 100))]);
      throw this.lost === null ? error : lost();
    }
  }

  async runNow(inputs) {
    const values = this.bind(inputs), memory = this.prepare(values);
    for (const port of this.program.inputs) {
      const bytes = this.extent(this.program.buffers[port.buffer].bytes, values), data = inputs[port.name].data;
      if (data.byteLength !== bytes) throw new Error(`input ${port.name} has ${data.byteLength} bytes, ${bytes} are wanted`);
      this.write(memory.get(port.buffer), data);
    }
    const run = new Run(this, values, memory);
    await run.region(1);
    await run.flush();
    const outputs = {};
    for (const port of this.program.outputs) {
      const shape = port.shape.map((text) => this.extent(text, run.values));
      const place = run.place(port.buffer);
      const bits = dtypeBits(port.dtype), count = shape.reduce((a, b) => a * b, 1);
      outputs[port.name] = {dtype: port.dtype, shape, data: await readBytes(this.device, place.gpu, place.offset, Math.ceil(count * bits / 8))};
    }
    return outputs;
  }

  destroy() {
    this.memory.forEach((buffer) => buffer.destroy());
    this.temps?.memory.forEach((buffer) => buffer.destroy());
    this.uniforms.forEach((buffer) => buffer.destroy());
  }
}

/* The elements of an output as numbers (64-bit integers as BigInt). */
export function values({dtype, data}) {
  const arrays = {f32: Float32Array, f64: Float64Array, i8: Int8Array, u8: Uint8Array, bool: Uint8Array, i16: Int16Array,
                  u16: Uint16Array, i32: Int32Array, u32: Uint32Array, i64: BigInt64Array, u64: BigUint64Array};
  if (arrays[dtype]) return new arrays[dtype](data.buffer, data.byteOffset, data.byteLength / arrays[dtype].BYTES_PER_ELEMENT);
  const bits = new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
  if (dtype === 'bf16') return new Float32Array(Uint32Array.from(bits, (b) => b << 16).buffer);
  if (dtype !== 'f16') throw new Error(`values of dtype ${dtype}`);
  return Float32Array.from(bits, (b) => {
    const sign = b & 0x8000 ? -1 : 1, exponent = (b >> 10) & 31, fraction = b & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
  });
}

function dtypeBits(name) {
  if (name === 'bool') return 8;
  if (name === 'bf16') return 16;
  const match = /^[a-z]+(\d+)/.exec(name);
  if (!match) throw new Error(`unknown dtype ${name}`);
  return Number(match[1]);
}

/* -- one call: steps into command buffers */

class Run {
  constructor(model, values, memory) {
    this.model = model;
    this.device = model.device;
    this.values = values.slice();
    this.memory = memory;
    this.encoder = null;
    this.pass = null;
    this.garbage = [];
  }

  commands() {
    this.pass?.end();
    this.pass = null;
    return (this.encoder ??= this.device.createCommandEncoder());
  }

  async flush() {
    this.pass?.end();
    if (this.encoder) this.device.queue.submit([this.encoder.finish()]);
    this.encoder = this.pass = null;
    await this.device.queue.onSubmittedWorkDone();
    this.garbage.forEach((buffer) => buffer.destroy());
    this.garbage = [];
  }

  /* Where a buffer's bytes are. */
  place(number) {
    let offset = 0, buffer = this.model.program.buffers[number];
    const bytes = this.model.extent(buffer.bytes, this.values);
    while (buffer.kind === 'alias') {
      offset += this.model.extent(buffer.offset ?? 0, this.values);
      number = buffer.index ?? 0;
      buffer = this.model.program.buffers[number];
    }
    return {gpu: this.memory.get(number), offset, bytes};
  }

  copy(from, fromOffset, to, toOffset, bytes) {
    if (bytes === 0) return;
    if (fromOffset % 4 || toOffset % 4) throw new Error('a view starts inside of a 32-bit word');
    const size = words(bytes);
    if (size !== bytes && toOffset + size < to.size && toOffset) throw new Error('a view ends inside of a 32-bit word');
    this.commands().copyBufferToBuffer(from, fromOffset, to, toOffset, Math.min(size, to.size - toOffset, from.size - fromOffset));
  }

  uniform(numbers) {
    const key = numbers.join(',');
    let buffer = this.model.uniforms.get(key);
    if (!buffer) {
      const data = new Int32Array(Math.ceil(numbers.length / 4) * 4);
      numbers.forEach((n, i) => {
        if (n > 0x7fffffff) throw new Error(`extent ${n} is beyond 32 bits`);
        data[i] = n;
      });
      buffer = this.device.createBuffer({size: data.byteLength, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST});
      this.device.queue.writeBuffer(buffer, 0, data);
      this.model.uniforms.set(key, buffer);
    }
    return buffer;
  }

  launch(step) {
    const {model} = this;
    const variant = step.variants.find((v) => (v.when ?? []).every((c) => model.holds(c, this.values)));
    const kernel = model.kernels[variant.kernel], grid = model.extent(variant.grid, this.values);
    if (grid === 0) return;
    const alignment = this.device.limits.minStorageBufferOffsetAlignment;
    const places = variant.buffers.map((number) => this.place(number));
    const after = [], entries = [];
    places.forEach((place, binding) => {
      const access = kernel.access[binding];
      if (access === 'none') return;
      const clashes = places.some((other, i) => i !== binding && other.gpu === place.gpu && kernel.access[i] !== 'none' &&
                                                (kernel.access[i] !== access || access === 'read_write'));
      let {gpu, offset} = place;
      if (offset % alignment || (clashes && access === 'read')) {
        gpu = this.device.createBuffer({
          size: words(place.bytes),
          usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
        });
        this.garbage.push(gpu);
        this.copy(place.gpu, offset, gpu, 0, place.bytes);
        if (access === 'read_write') after.push(() => this.copy(gpu, 0, place.gpu, place.offset, place.bytes));
        offset = 0;
      } else if (clashes && !places.every((other, i) => i === binding || other.gpu !== gpu || kernel.access[i] !== 'read_write'))
        throw new Error(`${step.location}: two views of one buffer are written`);
      entries.push({binding, resource: {buffer: gpu, offset, size: Math.min(words(place.bytes), gpu.size - offset)}});
    });
    const numbers = [grid, ...variant.extents.map((text) => model.extent(text, this.values))];
    entries.push({binding: places.length, resource: {buffer: this.uniform(numbers)}});
    if (!this.pass) this.pass = this.commands().beginComputePass();
    this.pass.setPipeline(kernel.pipeline);
    this.pass.setBindGroup(0, this.device.createBindGroup({layout: kernel.layout, entries}));
    this.pass.dispatchWorkgroups(Math.min(grid, AXIS_LIMIT), Math.ceil(grid / AXIS_LIMIT));
    after.forEach((copyBack) => copyBack());
  }

  async readBack(number) {
    await this.flush();
    const {gpu, offset, bytes} = this.place(number);
    return readBytes(this.device, gpu, offset, bytes);
  }

  async region(index) {
    for (const step of this.model.program.regions[index]) {
      switch (step.kind) {
        case 'launch': this.launch(step); break;
        case 'copy': {
          const from = this.place(step.buffers[0]), to = this.place(step.buffers[1]);
          this.copy(from.gpu, from.offset, to.gpu, to.offset, this.model.extent(step.bytes, this.values));
          break;
        }
        case 'while':
          for (;;) {
            await this.region(step.regions[0]);
            if (!(await this.readBack(step.buffers[0]))[0]) break;
            await this.region(step.regions[1]);
          }
          break;
        case 'cond': {
          const taken = (await this.readBack(step.buffers[0]))[0];
          await this.region(step.regions[taken ? 0 : 1]);
          break;
        }
        case 'read_dim': {
          const bytes = await this.readBack(step.buffers[0]);
          const value = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigInt64(0, true));
          const {minimum, maximum} = this.model.program.symbols[step.symbol];
          if (value < minimum || value > maximum) throw new Error(`${step.location}: a size of ${value} is out of range`);
          this.values[step.symbol] = value;
          break;
        }
        case 'loop': {
          const trips = this.model.extent(step.trips, this.values);
          for (let trip = 0; trip < trips; trip++) {
            this.values[step.symbol] = trip;
            await this.region(step.regions[0]);
          }
          break;
        }
        default: throw new Error(`step "${step.kind}" is unknown`);
      }
    }
  }
}

/* Runs on the processor: right, but slow. */
const isSoftware = ({isFallbackAdapter, architecture, description}) =>
  isFallbackAdapter || /swiftshader|llvmpipe|software|basic render/i.test(`${architecture} ${description}`);

/* A device with the adapter's own limits; throws in words when there is none. */
export async function openDevice() {
  if (!navigator.gpu) throw new Error('this browser has no WebGPU');
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) throw new Error('this browser offers no WebGPU adapter');
  const {vendor = '', architecture = '', description = '', isFallbackAdapter = adapter.isFallbackAdapter} = adapter.info ?? {};
  if (isSoftware({isFallbackAdapter, architecture, description}))
    console.warn(`WebGPU runs on ${[vendor, architecture, description].filter(Boolean).join(' ')}, an adapter in software: slow`);
  const requiredLimits = {};
  for (const name of ['maxStorageBufferBindingSize', 'maxBufferSize']) requiredLimits[name] = adapter.limits[name];
  const requiredFeatures = ['subgroups', 'shader-f16'].filter((name) => adapter.features.has(name));
  return {adapter, device: await adapter.requestDevice({requiredLimits, requiredFeatures})};
}

/* Errors of the device become errors of `work`. */
async function checked(device, work) {
  device.pushErrorScope('out-of-memory');
  device.pushErrorScope('validation');
  let failure = null;
  try {
    await work();
  } catch (error) {
    failure = error;
  }
  const validation = await device.popErrorScope(), memory = await device.popErrorScope(), found = validation ?? memory;
  if (failure || found) throw failure ?? new Error(found.message);
}

export async function load({program, image, weights, device, onprogress}) {
  const model = new Model(program, device);
  await checked(device, async () => {
    await model.compile(image, onprogress);
    await model.place(new Memory(weights));
    await model.start();
  });
  return model;
}

/* runtime/drivers/webgpu/probe.c has the same text and says what it is for. */
const halfProbe = `enable f16;
@group(0) @binding(0) var<storage, read_write> halves: array<f16>;
@group(0) @binding(1) var<storage, read_write> wrong: array<atomic<u32>>;
fn widened(x: u32) -> u32 {
  let s = (x & 0x8000u) << 16u; let e = (x >> 10u) & 31u; let m = x & 0x3ffu;
  let d = bitcast<u32>(f32(m) * 5.9604644775390625e-8f);
  return s | select(select(((e + 112u) << 23u) | (m << 13u), 0x7f800000u | (m << 13u), e == 31u), d, e == 0u);
}
fn differ(a: u32, b: u32) -> u32 {
  let numbers = ((a & 0x7fffffffu) <= 0x7f800000u) | ((b & 0x7fffffffu) <= 0x7f800000u);
  return select(0u, 1u, (a != b) & numbers);
}
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let w = widened(id.x); let n = differ(bitcast<u32>(f32(halves[id.x])), w);
  halves[id.x] = f16(bitcast<f32>(w));
  if (n > 0u) { atomicAdd(&wrong[0], n); }
}
`;

async function probeHalves(device) {
  const kernel = await makeKernel(device, {name: 'halves', code: halfProbe, buffers: ['read_write', 'read_write']});
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const given = Uint16Array.from({length: 65536}, (_, i) => i), isNaN = (half) => (half & 0x7fff) > 0x7c00;
  const buffers = [given.byteLength, 4].map((size) => device.createBuffer({size, usage}));
  const extents = device.createBuffer({size: 16, usage: GPUBufferUsage.UNIFORM});
  device.queue.writeBuffer(buffers[0], 0, given);
  const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
  pass.setPipeline(kernel.pipeline);
  pass.setBindGroup(0, device.createBindGroup({
    layout: kernel.layout,
    entries: [...buffers, extents].map((buffer, binding) => ({binding, resource: {buffer}})),
  }));
  pass.dispatchWorkgroups(256);
  pass.end();
  device.queue.submit([encoder.finish()]);
  const left = new Uint16Array((await readBytes(device, buffers[0], 0, given.byteLength)).buffer);
  const wrong = await readBytes(device, buffers[1], 0, 4);
  [...buffers, extents].forEach((buffer) => buffer.destroy());
  return wrong.every((byte) => byte === 0) && left.every((half, i) => half === i || (isNaN(half) && isNaN(i)));
}

/* Does the device have f16, numbers below 2^-14 too? Asked once. */
const keeping = new WeakMap();
export function keepsHalves(device) {
  const ask = async () => {
    let keeps = false;
    if (device.features.has('shader-f16')) await checked(device, async () => (keeps = await probeHalves(device))).catch(() => (keeps = false));
    return keeps;
  };
  if (!keeping.has(device)) keeping.set(device, ask());
  return keeping.get(device);
}

/* The code that fits the device, the best first: for subgroups of the one size that it has, for f16. */
export async function archsOf(device) {
  const {subgroupMinSize: least, subgroupMaxSize: most} = device.adapterInfo ?? {};
  const sizes = device.features.has('subgroups') && least && least === most ? [`-subgroups${least}`, ''] : [''];
  const halves = (await keepsHalves(device)) ? ['-f16', ''] : [''];
  return sizes.flatMap((size) => halves.map((half) => `wgsl${half}${size}`));
}

/* What the manifest says about WebGPU. */
async function targetOf(manifest, device) {
  if (manifest.format !== 'weft-artifact' || manifest.version !== 1) throw new Error('this file has a format of another version');
  const target = (await archsOf(device)).map((arch) => manifest.targets.find((t) => t.target === 'webgpu' && t.arch === arch)).find(Boolean);
  if (!target) throw new Error('this file has no code for WebGPU: weft compile --target webgpu');
  return target;
}

/* onprogress({stage: 'download', done, total: bytes; 0 = not known}) and ({stage: 'kernels', done, total}). */
export async function open(url, {device, onprogress} = {}) {
  device ??= (await openDevice()).device;
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const total = Number(response.headers.get('Content-Length') ?? 0);
  let done = 0, manifest, target, model, kernels;
  const file = new Entries(response.body.getReader(),
                           (bytes) => onprogress?.({stage: 'download', done: (done += bytes), total: Math.max(total, total && done)}));
  const read = async () => {
    for (let name; (name = await file.next());) {
      if (name === 'manifest.json') {
        manifest = JSON.parse(await file.text());
        target = await targetOf(manifest, device);
        model = new Model(target.program, device);
      } else if (name === target?.code) {
        kernels = model.compile(JSON.parse(await file.text()), onprogress);
        kernels.catch(() => {}); /* reported below */
      } else if (name === manifest?.weights) await model.place(file);
    }
    if (!model || !kernels) throw new Error('this is no artifact of Weft');
    if (!manifest.weights) await model.place(new Memory(new Uint8Array(0)));
    await kernels;
    await model.start();
  };
  await checked(device, read);
  return model;
}
