# frozen_string_literal: true

# Flows of Dalli, in the meta protocol, against one address: dalli_flows.rb HOST PORT. One line per flow: passed, failed or skipped.
# FLOWS_CA names a file with the authority of a server that speaks TLS. FLOWS_CERT and FLOWS_KEY are files with what the client shows
# to one that wants a certificate.

require 'dalli'
require 'logger'
require 'openssl'
require 'securerandom'

Dalli.logger = Logger.new($stderr, level: Logger::WARN)

# The client has no such call, or it does not work against any server.
class Cannot < StandardError
end

# A flow found something else than it should.
class Wrong < StandardError
end

# What the program is given, and how the client connects with it.
class Target
  def initialize(host, port)
    @server = "#{host}:#{port}"
  end

  def connect
    # The client refuses values above its own limit; with this one the server does.
    Dalli::Client.new([@server], protocol: :meta, compress: false, socket_timeout: 20, value_max_bytes: 8 << 20,
                                 ssl_context: ssl_context)
  end

  private

  def ssl_context
    return unless ENV['FLOWS_CA']

    context = OpenSSL::SSL::SSLContext.new
    context.set_params(ca_file: ENV['FLOWS_CA'], verify_mode: OpenSSL::SSL::VERIFY_PEER)
    if ENV['FLOWS_CERT']
      certificate = OpenSSL::X509::Certificate.new(File.read(ENV['FLOWS_CERT']))
      context.add_certificate(certificate, OpenSSL::PKey.read(File.read(ENV.fetch('FLOWS_KEY'))))
    end
    context
  end
end

# The catalogue, one method for each flow; the last empties the server.
class Flows
  NAMES = [
    'set and get', 'absent key', 'flags', 'multi-get', 'add', 'replace', 'append and prepend', 'cas', 'incr and decr', 'incr of text',
    'touch', 'get and touch', 'expired at once', 'delete', 'noreply', 'empty value', 'values like the protocol', 'large value',
    'value too large', 'longest key', 'key too long', 'binary keys', 'version', 'stats', 'concurrency', 'flush'
  ].freeze

  # Stored as it is, not as Ruby's Marshal writes it.
  RAW = { raw: true }.freeze

  def initialize(target)
    @target = target
    @client = target.connect
  end

  def run_all
    NAMES.each do |name|
      send(name.tr(' -', '__'))
      puts "passed #{name}"
    rescue Cannot => e
      puts "skipped #{name}: #{e.message}"
    rescue StandardError => e
      puts "failed #{name}: #{e.class} #{e.message.split.join(' ')[0, 300]}"
      @client.close # what was not read of an answer is no answer to the next flow
    end
  end

  private

  def set_and_get
    %w[value other].each do |value|
      set('set:key', value)
      holds('set:key', value)
    end
  end

  def absent_key
    absent('absent:key')
  end

  def flags
    # The client keeps in the flags whether a value was marshalled.
    [{ 'a' => [1, 2] }, 17, 'text', true].each do |value|
      set('flags:key', value)
      holds('flags:key', value)
    end
    set('flags:key', 'text', RAW)
    holds('flags:key', 'text')
  end

  def multi_get
    wanted = (0...300).to_h { |number| ["multi:#{number}", "value #{number}"] }
    wanted.each { |key, value| set(key, value) }
    equal(wanted, @client.get_multi(*wanted.keys, 'multi:absent'))
  end

  def add
    yes(@client.add('add:key', 'first'))
    no(@client.add('add:key', 'second'))
    holds('add:key', 'first')
  end

  def replace
    no(@client.replace('replace:key', 'new'))
    set('replace:key', 'old')
    yes(@client.replace('replace:key', 'new'))
    holds('replace:key', 'new')
  end

  def append_and_prepend
    no(@client.append('append:key', '-end'))
    no(@client.prepend('append:key', 'start-'))
    set('append:key', 'middle', RAW)
    yes(@client.append('append:key', '-end'))
    yes(@client.prepend('append:key', 'start-'))
    holds('append:key', 'start-middle-end')
  end

  def cas
    set('cas:key', 'first')
    value, token = @client.get_cas('cas:key')
    equal('first', value)
    yes(@client.set_cas('cas:key', 'second', token))
    no(@client.set_cas('cas:key', 'third', token))
    holds('cas:key', 'second')
    yes(@client.cas('cas:key') { |found| "#{found} and last" })
    holds('cas:key', 'second and last')
    yes(@client.delete('cas:key'))
    no(@client.set_cas('cas:key', 'third', token))
  end

  def incr_and_decr
    equal(nil, @client.incr('number:absent', 1))
    equal(7, @client.incr('number:created', 1, 100, 7))
    equal(8, @client.incr('number:created', 1, 100, 7))
    set('number:key', '10', RAW)
    equal(15, @client.incr('number:key', 5))
    equal(12, @client.decr('number:key', 3))
    equal(0, @client.decr('number:key', 100))
  end

  def incr_of_text
    set('text:key', 'text', RAW)
    refused('CLIENT_ERROR') { @client.incr('text:key', 1) }
    holds('text:key', 'text')
  end

  def touch
    no(@client.touch('touch:key', 100))
    set('touch:key', 'value')
    yes(@client.touch('touch:key', 100))
    holds('touch:key', 'value')
    yes(@client.touch('touch:key', -1))
    absent('touch:key')
  end

  def get_and_touch
    set('gat:key', 'value')
    equal('value', @client.gat('gat:key', -1))
    equal(nil, @client.gat('gat:key', 100))
  end

  def expired_at_once
    yes(@client.set('expired:key', 'value', -1))
    absent('expired:key')
  end

  def delete
    no(@client.delete('delete:key'))
    set('delete:key', 'value')
    yes(@client.delete('delete:key'))
    absent('delete:key')
  end

  # In the meta protocol a quiet request is answered where it fails.
  def noreply
    @client.quiet do
      @client.set('noreply:key', '10', 0, RAW)
      @client.add('noreply:key', 'ignored', 0, RAW)
      @client.append('noreply:key', '0')
      @client.incr('noreply:key', 5)
      @client.delete('noreply:absent')
    end
    holds('noreply:key', '105')
    @client.quiet { @client.delete('noreply:key') }
    absent('noreply:key')
  end

  def empty_value
    set('empty:key', '', RAW)
    holds('empty:key', '')
  end

  def values_like_the_protocol
    every = (0..255).to_a.pack('C*')
    ["END\r\n", "\r\n", "HD\r\nMN\r\n", "VA 3 kabc\r\nabc\r\n", every].each do |value|
      set('binary:key', value, RAW)
      equal(value.b, @client.get('binary:key').b)
    end
  end

  def large_value
    value = SecureRandom.alphanumeric(1_000_000)
    set('large:key', value, RAW)
    holds('large:key', value)
  end

  def value_too_large
    refused('SERVER_ERROR') { set('too-large:key', SecureRandom.bytes(2 << 20), RAW) }
    set('too-large:key', 'value')
    holds('too-large:key', 'value')
  end

  def longest_key
    key = "longest:#{'k' * 242}"
    set(key, 'value')
    holds(key, 'value')
  end

  def key_too_long
    raise Cannot, 'the client sends a digest in place of a long key'
  end

  # The client sends them in base64, and says so.
  def binary_keys
    keys = ['Bücher', 'a key with spaces']
    keys.each do |key|
      absent(key)
      set(key, "value of #{key}")
      holds(key, "value of #{key}")
    end
    equal(keys.to_h { |key| [key, "value of #{key}"] }, @client.get_multi(*keys))
    keys.each { |key| yes(@client.delete(key)) }
  end

  def version
    [@client.version.values].flatten.each { |found| yes(found.to_s.match?(/\d+\.\d+/)) }
  end

  def stats
    found = @client.stats.values.first
    equal([], %w[pid uptime curr_connections cmd_get cmd_set] - found.keys)
  end

  def concurrency
    (0...8).map { |worker| Thread.new { work(worker) } }.each(&:value)
  end

  def work(worker)
    Thread.current.report_on_exception = false
    own = @target.connect
    250.times do |turn|
      key = "concurrency:#{worker}:#{turn % 10}"
      yes(own.set(key, "#{worker} of #{turn}"))
      equal("#{worker} of #{turn}", own.get(key))
    end
  ensure
    own&.close
  end

  def flush
    set('flush:key', 'value')
    equal([true], @client.flush)
    absent('flush:key')
  end

  def set(key, value, options = nil)
    yes(@client.set(key, value, 0, options))
  end

  def holds(key, value)
    equal(value, @client.get(key))
  end

  def absent(key)
    equal(nil, @client.get(key))
  end

  def refused(word)
    answer = yield
  rescue Dalli::DalliError => e
    raise Wrong, e.message unless e.message.include?(word)
  else
    raise Wrong, "answered #{answer.inspect[0, 80]}"
  end

  def yes(answer)
    raise Wrong, "answered #{answer.inspect[0, 80]}" unless answer
  end

  def no(answer)
    raise Wrong, "answered #{answer.inspect[0, 80]}" if answer
  end

  def equal(wanted, found)
    raise Wrong, "#{found.inspect[0, 80]} instead of #{wanted.inspect[0, 80]}" unless wanted == found
  end
end

abort 'usage: dalli_flows.rb HOST PORT' unless ARGV.length == 2
$stdout.sync = true
Flows.new(Target.new(*ARGV)).run_all
