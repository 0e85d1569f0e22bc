# Sidekiq: jobs by priority, delay and retry through its own processor, and what its API tells of them.
require 'sidekiq'
require 'sidekiq/api'
require 'sidekiq/cli'
require 'sidekiq/launcher'
require 'sidekiq/processor'
require 'sidekiq/scheduled'

Sidekiq.logger.level = Logger::FATAL
URL = "redis://localhost:#{ENV.fetch('REDIS_PORT')}"
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server { |config| config.redis = { url: URL } }
Sidekiq.options[:error_handlers].clear
$done = Queue.new

def show(*words)
  puts words.map(&:inspect).join(' ')
end

class Add
  include Sidekiq::Worker

  def perform(a, b)
    $done << a + b
  end
end

class Stubborn
  include Sidekiq::Worker
  sidekiq_options queue: 'low', retry: 1
  sidekiq_retry_in { 0 }

  def perform(tries_key)
    tries = Sidekiq.redis { |redis| redis.incr(tries_key) }
    $done << "try #{tries}"
    raise 'on purpose'
  end
end

# A process with its threads, until the block is through.
def serving
  options = Sidekiq.options.merge(queues: %w[critical default low], strict: true, concurrency: 2, timeout: 5,
                                  poll_interval_average: 0.1, average_scheduled_poll_interval: 1)
  options[:fetch] = Sidekiq::BasicFetch.new(options)
  launcher = Sidekiq::Launcher.new(options)
  launcher.run
  yield
ensure
  launcher.stop
end

def wait_until
  sleep 0.01 until yield
end

def queues
  show 'pushed', Add.perform_async(1, 2).size, Sidekiq::Queue.new.size, Sidekiq::Queue.all.map(&:name)
  Sidekiq::Client.push_bulk('class' => Add, 'args' => (1..20).map { |n| [n, n] })
  queue = Sidekiq::Queue.new
  show 'waiting', queue.size, queue.map(&:args).first(3), queue.latency >= 0
  serving { wait_until { $done.size == 21 } }
  show 'sums', Array.new(21) { $done.pop }.sort
  show 'left', Sidekiq::Stats.new.enqueued
end

def order
  Sidekiq::Client.push('class' => Add, 'queue' => 'low', 'args' => ['low', '!'])
  Sidekiq::Client.push('class' => Add, 'queue' => 'critical', 'args' => ['critical', '!'])
  fetch = Sidekiq::BasicFetch.new(queues: %w[critical default low], strict: true)
  show 'fetched', Array.new(2) { fetch.retrieve_work.queue_name }
end

def schedules
  Add.perform_in(3600, 'much', ' later')
  Add.perform_in(0.05, 'soon', '')
  set = Sidekiq::ScheduledSet.new
  show 'scheduled', set.size, set.map(&:args).sort
  sleep 0.06
  Sidekiq::Scheduled::Enq.new.enqueue_jobs
  show 'due', set.size, Sidekiq::Queue.new.map(&:args)
  set.first.reschedule(Time.now - 1)
  Sidekiq::Scheduled::Enq.new.enqueue_jobs
  show 'rescheduled', set.size, Sidekiq::Queue.new.size
  Sidekiq::Queue.new.find { |job| job.args.first == 'soon' }.delete
  show 'deleted', Sidekiq::Queue.new.map(&:args), Sidekiq::Queue.new.clear, Sidekiq::Queue.all.size
end

def failures
  Stubborn.perform_async('tries')
  retries = Sidekiq::RetrySet.new
  serving { wait_until { retries.size == 1 } }
  show 'failed', $done.pop, retries.first.item.slice('error_message', 'error_class', 'retry_count', 'queue')
  retries.retry_all
  serving { wait_until { Sidekiq::DeadSet.new.size == 1 } }
  dead = Sidekiq::DeadSet.new
  show 'dead', $done.pop, dead.first.args, retries.size
  dead.first.retry
  show 'revived', dead.size, Sidekiq::Queue.new('low').map(&:klass)
  Sidekiq::Queue.new('low').first.delete
end

def processes
  serving do
    wait_until { Sidekiq::ProcessSet.new.size == 1 }
    process = Sidekiq::ProcessSet.new.first
    show 'process', process['concurrency'], process['queues'], Sidekiq::Workers.new.size
  end
  wait_until { Sidekiq::ProcessSet.new.size.zero? }
  show 'gone', Sidekiq::ProcessSet.new.cleanup
end

[:queues, :order, :schedules, :failures, :processes].each do |part|
  show part
  send(part)
end
