// Flows of the package memcached against one address: node memcached_flows.js HOST PORT.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import Memcached from "memcached";
import { Cannot, address, runAll } from "./flows.js";

// `keyCompression`: the client would send a hash in place of a long key. A value that is too large it refuses itself.
// Set not to refuse it (`maxValue`), it takes the server's SERVER_ERROR for the loss of the server, whichever error that is.
const client = new Memcached(address, { timeout: 20_000, retries: 0, poolSize: 8, keyCompression: false });

function ask(command, ...args) {
  return new Promise((resolve, reject) => {
    client[command](...args, (error, answer) => (error ? reject(asError(error)) : resolve(answer)));
  });
}

function asError(error) {
  if (error instanceof Error) return error;
  return new Error(Array.isArray(error) ? error.map(String).join("; ") : String(error));
}

// The client reports "not stored" as an error with the server's word.
async function notStored(stored) {
  await assert.rejects(stored, /not stored/);
}

async function holds(key, value) {
  assert.equal(await ask("get", key), value);
}

async function absent(key) {
  assert.equal(await ask("get", key), undefined);
}

await runAll({
  async "set and get"() {
    for (const value of ["value", "other"]) {
      assert.equal(await ask("set", "set:key", value, 0), true);
      await holds("set:key", value);
    }
  },
  async "absent key"() {
    await absent("absent:key");
  },
  async "flags"() {
    // The client keeps the type in the flags.
    for (const value of [{ a: 1 }, 17, "text", Buffer.from([0, 255])]) {
      await ask("set", "flags:key", value, 0);
      assert.deepEqual(await ask("get", "flags:key"), value);
    }
  },
  async "multi-get"() {
    const wanted = Object.fromEntries(Array.from({ length: 300 }, (_, number) => [`multi:${number}`, `value ${number}.`]));
    for (const [key, value] of Object.entries(wanted)) await ask("set", key, value, 0);
    const found = await ask("getMulti", [...Object.keys(wanted), "multi:absent"]);
    assert.deepEqual({ ...found }, wanted);
  },
  async "add"() {
    assert.equal(await ask("add", "add:key", "first", 0), true);
    await notStored(ask("add", "add:key", "second", 0));
    await holds("add:key", "first");
  },
  async "replace"() {
    await notStored(ask("replace", "replace:key", "new", 0));
    await ask("set", "replace:key", "old", 0);
    assert.equal(await ask("replace", "replace:key", "new", 0), true);
    await holds("replace:key", "new");
  },
  async "append and prepend"() {
    await notStored(ask("append", "append:key", "-end"));
    await notStored(ask("prepend", "append:key", "start-"));
    await ask("set", "append:key", "middle", 0);
    assert.equal(await ask("append", "append:key", "-end"), true);
    assert.equal(await ask("prepend", "append:key", "start-"), true);
    await holds("append:key", "start-middle-end");
  },
  async "cas"() {
    await ask("set", "cas:key", "first", 0);
    const { cas, "cas:key": value } = await ask("gets", "cas:key");
    assert.equal(value, "first");
    assert.equal(await ask("cas", "cas:key", "second", cas, 0), true);
    assert.equal(await ask("cas", "cas:key", "third", cas, 0), false);
    await holds("cas:key", "second");
    await ask("del", "cas:key");
    assert.equal(await ask("cas", "cas:key", "third", cas, 0), false);
  },
  async "incr and decr"() {
    assert.equal(await ask("incr", "number:absent", 1), false);
    await ask("set", "number:key", "10", 0);
    assert.equal(await ask("incr", "number:key", 5), 15);
    assert.equal(await ask("decr", "number:key", 3), 12);
    assert.equal(await ask("decr", "number:key", 100), 0);
  },
  async "incr of text"() {
    await ask("set", "text:key", "text", 0);
    await assert.rejects(ask("incr", "text:key", 1), /non-numeric/);
    await holds("text:key", "text");
  },
  async "touch"() {
    assert.equal(await ask("touch", "touch:key", 100), false);
    await ask("set", "touch:key", "value", 0);
    assert.equal(await ask("touch", "touch:key", 100), true);
    await holds("touch:key", "value");
    assert.equal(await ask("touch", "touch:key", -1), true);
    await absent("touch:key");
  },
  async "get and touch"() {
    throw new Cannot("the client has no get and touch");
  },
  async "expired at once"() {
    await ask("set", "expired:key", "value", -1);
    await absent("expired:key");
  },
  async "delete"() {
    assert.equal(await ask("del", "delete:key"), false);
    await ask("set", "delete:key", "value", 0);
    assert.equal(await ask("del", "delete:key"), true);
    await absent("delete:key");
  },
  async "noreply"() {
    throw new Cannot("the client always waits for a reply");
  },
  async "empty value"() {
    await ask("set", "empty:key", "", 0);
    await holds("empty:key", "");
  },
  async "values like the protocol"() {
    const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    for (const value of [Buffer.from("\r\n"), Buffer.from("VALUE key 0 3\r\nabc\r\n"), every]) {
      await ask("set", "binary:key", value, 0);
      assert.deepEqual(await ask("get", "binary:key"), value);
    }
  },
  async "large value"() {
    const value = randomBytes(500_000).toString("hex");
    await ask("set", "large:key", value, 0);
    await holds("large:key", value);
  },
  async "value too large"() {
    await assert.rejects(ask("set", "too-large:key", "v".repeat(2 << 20), 0), /greater than/);
    await ask("set", "too-large:key", "value", 0);
    await holds("too-large:key", "value");
  },
  async "longest key"() {
    const key = `longest:${"k".repeat(242)}`;
    await ask("set", key, "value", 0);
    await holds(key, "value");
  },
  async "key too long"() {
    await assert.rejects(ask("set", "k".repeat(251), "value", 0));
    await ask("set", "too-long:key", "value", 0);
    await holds("too-long:key", "value");
  },
  async "version"() {
    const [{ version }] = await ask("version");
    assert.match(version, /^\d+\.\d+\.\d+$/); // the last three numbers of the line: through Weir, Weir's own
  },
  async "stats"() {
    const [stats] = await ask("stats");
    for (const name of ["pid", "uptime", "curr_connections", "cmd_get", "cmd_set"]) assert.ok(name in stats, name);
  },
  async "concurrency"() {
    const worker = async (number) => {
      for (let turn = 0; turn < 250; turn++) {
        const [key, value] = [`concurrency:${number}:${turn % 10}`, `${number} of ${turn}`];
        await ask("set", key, value, 0);
        await holds(key, value);
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, number) => worker(number)));
  },
  async "flush"() {
    await ask("set", "flush:key", "value", 0);
    await ask("flush");
    await absent("flush:key");
  },
});
client.end();
